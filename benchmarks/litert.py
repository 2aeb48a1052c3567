"""edgec's ``.litertlm`` beside litert-torch's own export, in LiteRT-LM's engine: python -m benchmarks.litert [--json].

    one folder -> edgec, android-litert (the target's default)          -> LiteRT-LM's engine
               -> litert-torch: 8 bits a channel, 4 bits in blocks      -> LiteRT-LM's engine
               -> edgec, host (the default)                             -> edgec's engine

Each is exported in a process of its own (once for a folder ``--build``), and timed in processes of its own, in turns,
with prompts of ``PROMPT`` tokens and ``NEW`` tokens after them. LiteRT-LM takes texts and gives no logits, so what
rounding costs is told by words: how many characters of its answers to four questions are those of the float model, the
likeliest token each time, before the first that differs. All figures are measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile, zip_longest
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.harness.grid import Grid, megabytes, number
from benchmarks.harness.processes import QUIET, run, run_worker
from benchmarks.session_models import EXAMPLE

PROMPT, NEW, CONTEXT = 126, 24, 256
_WORDS = 48
"""Tokens of each answer; fewer are timed, since LiteRT-LM ends where the model does."""
_ROUNDS, _LAPS, _THREADS = 3, 5, (1, 2)
_QUESTIONS = (
    "What is the capital of France?",
    "Write two sentences about the sea.",
    "Why is the sky blue?",
    "Tell me a short story about a cat.",
)
Spread = tuple[float, float, float]
_EXPORT, _RUN = "benchmarks.peers.litert_export", "benchmarks.peers.litert_lm"


@dataclass(frozen=True)
class Way:
    """A way from the model to a file that runs; ``asked`` is its part of the export's job."""

    name: str
    asked: tuple[str, str]
    ending: str


WAYS = (
    Way("edgec, android-litert", ("target", "android-litert"), ".edgec"),
    Way("litert-torch, 8 bits", ("recipe", "dynamic_wi8_afp32"), ".litertlm"),
    Way("litert-torch, 4 bits in blocks of 32", ("recipe", "dynamic_wi4b32_afp32"), ".litertlm"),
    Way("edgec, host", ("target", "host"), ".edgec"),
)


@dataclass(frozen=True)
class Row:
    """The figures of one way.

    Attributes:
        export_cpu_s: of the export's process, its checks included.
        peak_bytes: of the same.
        ttft_ms: the median of all laps, by threads, with the extremes.
        tokens_per_s: the same.
        same_characters: the mean over the answers, of as many as the float model wrote; 0 of one that fails.
    """

    way: str
    export_cpu_s: float
    peak_bytes: int
    file_bytes: int
    ttft_ms: Mapping[int, Spread | None]
    tokens_per_s: Mapping[int, Spread | None]
    same_characters: float
    float_characters: float


def measure(folder: Path, build: Path, ways: Sequence[Way] = WAYS) -> list[Row]:
    """Export and measure the model of a folder by each way."""
    build.mkdir(parents=True, exist_ok=True)
    costs = {way: _exported(way, folder, build) for way in ways}
    files = {way: artifact(build / f"{_slug(way)}{way.ending}") for way in ways}
    wanted = float_answers(folder)
    written = {
        way: run_worker(_RUN, {"file": str(files[way]), "questions": _QUESTIONS, "new": _WORDS})["written"]
        for way in ways
    }
    laps = _laps(files)
    return [
        Row(
            way.name,
            *costs[way],
            _bytes(files[way]),
            {threads: spread(laps[way, threads]["ttft_ms"]) for threads in _THREADS},
            {threads: spread(laps[way, threads]["tokens_per_s"]) for threads in _THREADS},
            mean(same_start(*pair) for pair in zip_longest(written[way], wanted, fillvalue="")),
            mean(map(len, wanted)),
        )
        for way in ways
    ]


def _exported(way: Way, folder: Path, build: Path) -> tuple[float, int]:
    """CPU seconds and peak of an export, which is not made again where it lies beside what it cost."""
    out, cost = build / f"{_slug(way)}{way.ending}", build / f"{_slug(way)}.cost.json"
    if not (out.exists() and cost.exists()):
        job = {"folder": str(folder), "out": str(out), "context": CONTEXT, **dict([way.asked])}
        done = run([sys.executable, "-m", _EXPORT], stdin=job, environment=QUIET)
        cost.write_text(json.dumps([done.cost.cpu_s, done.json()["peak_bytes"]]))
    spent, peak = json.loads(cost.read_text())
    return float(spent), int(peak)


def artifact(out: Path) -> Path:
    """What is run: the ``.litertlm`` in a bundle for LiteRT, or else the file or bundle itself."""
    return next(out.glob("*.litertlm"), out) if out.is_dir() else out


def _bytes(file: Path) -> int:
    from edgec.bundle.folder import open_bundle

    return (open_bundle(file, check_files=False).artifact_path if file.is_dir() else file).stat().st_size


def _slug(way: Way) -> str:
    return way.name.replace(", ", "-").replace(" ", "-")


def float_answers(folder: Path) -> list[str]:
    """What the float model answers to each question, the likeliest token each time, by transformers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    answers = []
    for question in _QUESTIONS:
        asked = [{"role": "user", "content": question}]
        given = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        made = model.generate(**given, max_new_tokens=_WORDS, do_sample=False)[0, given["input_ids"].shape[1] :]
        answers.append(tokenizer.decode(made, skip_special_tokens=True))
    return answers


def same_start(made: str, wanted: str) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(made, wanted, strict=False)))


def _laps(files: Mapping[Way, Path]) -> dict[tuple[Way, int], dict[str, list[float]]]:
    """The figures of every lap; the ways take turns."""
    made: dict[tuple[Way, int], dict[str, list[float]]] = {}
    for _ in range(_ROUNDS):
        for way, file in files.items():
            for threads in _THREADS:
                job = {"file": str(file), "threads": threads, "prompt": PROMPT, "new": NEW, "laps": _LAPS}
                kept = made.setdefault((way, threads), {"ttft_ms": [], "tokens_per_s": []})
                for name, values in run_worker(_RUN, job).items():
                    kept[name] += values
    return made


def spread(values: Iterable[float]) -> Spread | None:
    """Median, least and most; None of no values, where the engine ends every text too early to be timed."""
    held = sorted(values)
    return (median(held), held[0], held[-1]) if held else None


def _cells(spreads: Mapping[int, Spread | None]) -> str:
    return " / ".join(number(each and each[0]) for each in spreads.values())


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown; cells of 1 / 2 threads."""
    heads = ("", "file MB", "export CPU s", "export peak MB", f"TTFT of {PROMPT}, ms", "tokens/s", "same characters")
    return Grid("LiteRT-LM", heads, tuple(map(_shown, rows))).markdown(0)


def _shown(row: Row) -> tuple[str, ...]:
    return (
        row.way,
        f"{row.file_bytes / 1e6:.1f}",
        f"{row.export_cpu_s:.0f}",
        megabytes(row.peak_bytes),
        _cells(row.ttft_ms),
        _cells(row.tokens_per_s),
        f"{row.same_characters:.0f} of {row.float_characters:.0f}",
    )


def main(arguments: Sequence[str] | None = None, write: Callable[[str], None] = print) -> None:
    """Export, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=EXAMPLE, help="a folder of a trained model; default: the example")
    parser.add_argument("--build", type=Path, default=Path("build/bench/litert"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = measure(options.model.resolve(), options.build.resolve())
    made: dict[str, Any] = {"obtained": "measured", "rows": [asdict(row) for row in rows]}
    write(json.dumps(made) if options.json else table(rows))


if __name__ == "__main__":
    main()
