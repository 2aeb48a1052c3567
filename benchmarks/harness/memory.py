"""Peak memory of the Python session, the C++ runner and the peers, each measured in a separate process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness.bench import Bench
from benchmarks.harness.processes import Done, ProcessFailed, run, run_worker
from benchmarks.harness.results import Memory
from benchmarks.harness.rounds import missed
from benchmarks.harness.subjects import Subject

_PROMPT, _NEW, _QUICK_PROMPT = 512, 8, 32


def measure_memory(bench: Bench) -> list[Memory]:
    """Measure each subject, and for each of edgec's also the runner."""
    subjects = bench.all_subjects()
    figures = []
    for done, subject in enumerate(subjects):
        bench.say(f"{subject.model.name}: {subject.name}", done / len(subjects))
        try:
            figures += list(_figures(bench, subject))
        except ProcessFailed as failed:
            bench.failures.append(missed(subject, failed, "memory of "))
    return figures


def _figures(bench: Bench, subject: Subject) -> Iterator[Memory]:
    key = {"model": subject.model.name, "subject": subject.name}
    common: dict[str, Any] = {**key, "threads": bench.settings.threads[-1]}
    in_python = bench.once({**key, "runtime": "Python"}, lambda: _in_python(bench, subject))
    if subject.peer:
        yield Memory(**common, runtime="Python", kv_bytes=None, **in_python)
        return
    kv_bytes = _kv_bytes(bench, subject)
    yield Memory(**common, runtime="Python", kv_bytes=kv_bytes, **in_python)
    yield Memory(
        **common,
        runtime="C++ runner",
        kv_bytes=kv_bytes,
        **bench.once({**key, "runtime": "C++"}, lambda: _in_runner(bench, subject)),
    )


def _prompt(bench: Bench) -> int:
    return _QUICK_PROMPT if bench.settings.quick else _PROMPT


def _in_python(bench: Bench, subject: Subject) -> dict[str, Any]:
    made = bench.shop.made(subject)
    shape = {"prompt_tokens": _prompt(bench), "new_tokens": _NEW, "context": subject.context}
    job = {"kind": "memory", "artifact": str(made.path), "threads": bench.settings.threads[-1], **shape}
    result = run_worker(subject.worker, {**job, **subject.job}, python=bench.shop.interpreter(subject))
    return {name: result[name] for name in ("peak_bytes", "idle_bytes", "obtained")}


def _in_runner(bench: Bench, subject: Subject) -> dict[str, Any]:
    """Run the runner, which reports its own peak; its packed weights are mapped from the file of an earlier load."""
    last = run_runner(bench, subject, _prompt(bench), _NEW).json()
    return {"peak_bytes": last["peak_rss_bytes"], "idle_bytes": None, "obtained": "measured: VmHWM at the end"}


def run_runner(bench: Bench, subject: Subject, prompt: int, new: int) -> Done:
    """Run ``edgec-runner`` on a subject's bundle."""
    from edgec.engine.compile.build import build_runner

    ids = ",".join(str((7 * i + 3) % int(subject.model.config["vocab_size"])) for i in range(prompt))
    packed = bench.shop.cache / "packed"
    words: list[str | Path] = [
        "--bundle",
        bench.shop.made(subject).path,
        "--packed",
        packed,
        "--tokens",
        ids,
        "--new-tokens",
        str(new),
    ]
    return run([build_runner().runner, *words, "--threads", str(bench.settings.threads[-1])])


def _kv_bytes(bench: Bench, subject: Subject) -> int:
    manifest = json.loads((bench.shop.made(subject).path / "manifest.json").read_text())
    return sum(int(state["bytes"]) for state in manifest["states"])
