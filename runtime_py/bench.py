"""Measure a bundle on a device: loads, first token, prefill, decode, memory, and minutes on end.

Every job runs in a fresh process. Memory has a pass of its own, because watching it would slow the others.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import edgec
from edgec.devices.transport import Transport, connect
from edgec.errors import InputError
from edgec.exporter.bundle.folder import Bundle, open_bundle
from edgec.runtime_py.bench_job import Job
from edgec.runtime_py.bench_plot import save_plot
from edgec.runtime_py.bench_record import (
    AnyRecord,
    Comparability,
    LoadRecord,
    MemoryRecord,
    ProfileRecord,
    RepetitionRecord,
    RunRecord,
    Subject,
    SustainedRecord,
    write_records,
)
from edgec.runtime_py.bench_summary import Figure, summarise
from edgec.runtime_py.session import decoder_limits
from edgec.runtime_py.simulated import refuse_as_speed

LOADS = 3
ENGINES = {"edgec": "edgec's engine", "executorch": "Python binding"}
WALL = "measured: wall clock of a fresh process"
Say = Callable[[str], None]


@dataclass(frozen=True)
class BenchResult:
    """A finished run.

    Attributes:
        records: what was measured, line by line.
        figures: medians and spreads over them.
        out: the JSONL file, or None.
        plot: the SVG beside it, or None.
    """

    records: tuple[AnyRecord, ...]
    figures: tuple[Figure, ...]
    out: Path | None = None
    plot: Path | None = None


def bench(
    bundle: Path | str,
    device: str = "host",
    *,
    prompt_tokens: int = 128,
    new_tokens: int = 64,
    repetitions: int = 5,
    warmups: int = 3,
    threads: int | None = None,
    sustained_minutes: float | None = None,
    profile: bool = False,
    out: Path | None = None,
    say: Say | None = None,
) -> BenchResult:
    """Measure a decoder's bundle.

    Args:
        bundle: the bundle folder.
        device: host, adb:SERIAL, ios:UDID, sim:UDID or qemu.
        prompt_tokens: length of the prompt (seeded random tokens).
        new_tokens: tokens generated behind it, past any end-of-sequence token.
        repetitions: measured generations, at least 5.
        warmups: generations before them that do not count.
        threads: CPU threads; None leaves the runtime's own choice.
        sustained_minutes: go on generating for so long and record the speed over time.
        profile: also tell where the time goes, operator by operator, in a process of its own.
        out: where to write the JSONL records; a plot goes beside it as .svg.
        say: told what is being measured.

    Raises:
        InputError: E150 prompt and new tokens exceed the context, E155 no decoder, E156 an option outside its range,
            E121 ``out`` cannot be written, E162 no token came.
        ToolError: E320, the device cannot be measured; E350, there is no profile without edgec's engine.
    """
    transport, opened = connect(device), open_bundle(Path(bundle))
    job = Job("speed", str(opened.path), prompt_tokens, new_tokens, threads, warmups=warmups, repetitions=repetitions)
    refuse_as_speed(opened)
    _check(job, opened, sustained_minutes)
    _check_folder(out)
    kinds = ("profile",) if profile else ()
    records = _measure(transport, opened, job, sustained_minutes or 0.0, kinds, say or (lambda _: None))
    plot = _save(records, out) if out else None
    return BenchResult(tuple(records), summarise(records), out, plot)


def _save(records: Sequence[AnyRecord], out: Path) -> Path:
    write_records(records, out)
    return save_plot(records, out.with_suffix(".svg"))


def _check_folder(out: Path | None) -> None:
    """Refuse a folder that cannot be written before minutes are spent on measuring."""
    if out is not None and not os.access(out.parent, os.W_OK):
        raise InputError(
            "The output cannot be written.",
            where=str(out),
            why="its folder does not exist or is not yours to write to",
            fix="choose a folder you may write to with --out",
            code="E121",
        )


def _check(job: Job, bundle: Bundle, minutes: float | None) -> None:
    context = decoder_limits(bundle).context
    ranges = {
        "prompt_tokens": (job.prompt_tokens >= 1, "1 or more"),
        "new_tokens": (job.new_tokens >= 2, "2 or more: decode speed needs an interval"),
        "repetitions": (job.repetitions >= 5, "5 or more, so that there is a spread"),
        "warmups": (job.warmups >= 0, "0 or more"),
        "sustained": (minutes is None or minutes > 0, "minutes above 0"),
    }
    for name, (valid, allowed) in ranges.items():
        if not valid:
            raise InputError(f"{name} is outside its range.", where=f"--{name}", fix=f"give {allowed}", code="E156")
    if job.prompt_tokens + job.new_tokens > context:
        raise InputError(
            f"{job.prompt_tokens} prompt tokens and {job.new_tokens} new ones exceed the context of {context}.",
            where="--prompt-tokens, --new-tokens",
            fix=f"ask for at most {context} in sum, for instance --prompt-tokens {context // 2}",
            code="E150",
        )


def _measure(
    transport: Transport, bundle: Bundle, job: Job, minutes: float, extra: Sequence[str], say: Say
) -> list[AnyRecord]:
    started, before = datetime.now(UTC).isoformat(timespec="seconds"), transport.facts()
    say(f"speed: {job.warmups} warm-ups and {job.repetitions} repetitions")
    speed = transport.run(job.to_json())
    common = _common(transport, bundle, job, int(speed["threads"]), speed["engine"])
    repetitions = [_repetition(common, job, i, lap) for i, lap in enumerate(speed["laps"])]
    loads = [
        _load(transport, common, replace(job, kind="load", state=state), say)
        for _ in range(LOADS)
        for state in ("cold", "warm")
    ]
    memory = _memory(transport, common, replace(job, kind="memory"), say)
    profiles = [found for kind in extra for found in _profile(transport, common, replace(job, kind=kind), say)]
    sustained = _sustained(transport, common, replace(job, kind="sustained", seconds=60 * minutes), say)
    head = RunRecord(
        **common,
        obtained="measured",
        started=started,
        edgec_version=edgec.__version__,
        warmups=job.warmups,
        repetitions=job.repetitions,
        ignore_eos=True,
        before=before,
        after=transport.facts(),
        energy_j=None,
    )
    return [head, *loads, memory, *repetitions, *profiles, *sustained]


def _common(transport: Transport, bundle: Bundle, job: Job, threads: int, engine: str) -> dict[str, Any]:
    """The fields that every record of a run shares."""
    manifest = bundle.manifest
    revision = f"@{manifest.model.revision}" if manifest.model.revision else ""
    comparability = Comparability(
        device=str(transport.address),
        machine=transport.facts().machine,
        model=f"{manifest.model.name}{revision}",
        model_parameters=manifest.model.parameters,
        prompt_tokens=job.prompt_tokens,
        new_tokens=job.new_tokens,
        threads=threads,
        runtime=f"{manifest.runtime.name} {_runtime_version()}, {ENGINES[engine]}",
    )
    subject = Subject(
        name=manifest.name,
        digest=manifest.digest,
        recipe=str(manifest.recipe.get("name", "unnamed")),
        target=manifest.target,
        artifact_bytes=bundle.artifact_path.stat().st_size,
        context=decoder_limits(bundle).context,
    )
    return {"run": secrets.token_hex(8), "comparability": comparability, "subject": subject}


def _runtime_version() -> str:
    from importlib.metadata import version

    return version("executorch")


def _load(transport: Transport, common: Mapping[str, Any], job: Job, say: Say) -> LoadRecord:
    say(f"{job.state} load")
    result = transport.run(job.to_json())
    page_cache = {"cold": "page cache of the artifact dropped", "warm": "artifact read once before"}[job.state]
    return LoadRecord(**common, obtained=f"{WALL}; {page_cache}", **result)


def _memory(transport: Transport, common: Mapping[str, Any], job: Job, say: Say) -> MemoryRecord:
    say("memory")
    result = transport.run(job.to_json())
    return MemoryRecord(**common, **(result | {"obtained": f"measured: {result['obtained']}"}))


def _repetition(common: Mapping[str, Any], job: Job, index: int, lap: Mapping[str, Any]) -> RepetitionRecord:
    gaps = [1e3 * gap for gap in lap["gaps_s"]]
    return RepetitionRecord(
        **common,
        obtained=f"{WALL}, after {job.warmups} warm-ups",
        index=index,
        ttft_ms=1e3 * lap["ttft_s"],
        prefill_tokens_per_s=job.prompt_tokens / lap["ttft_s"],
        decode_tokens_per_s=len(gaps) / sum(lap["gaps_s"]) if gaps else None,
        token_ms=gaps,
        tokens=len(gaps) + 1,
        finish_reason="length" if len(gaps) + 1 == job.new_tokens else "context",
    )


def _profile(transport: Transport, common: Mapping[str, Any], job: Job, say: Say) -> list[ProfileRecord]:
    say("where the time goes")
    record = partial(ProfileRecord, **common, obtained=f"{WALL} that times every instruction")
    return [record(**phase) for phase in transport.run(job.to_json())["phases"]]


def _sustained(transport: Transport, common: Mapping[str, Any], job: Job, say: Say) -> list[SustainedRecord]:
    if not job.seconds:
        return []
    say(f"sustained: {job.seconds / 60:g} minutes")
    record = partial(SustainedRecord, **common, obtained=WALL)
    return [record(**window) for window in transport.run(job.to_json())["windows"]]
