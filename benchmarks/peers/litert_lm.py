"""One ``.litertlm``, or a bundle of edgec's engine, as ``edgec bench`` times it, and what it writes.

A job has ``file``, ``threads``, ``prompt``, ``new`` and ``laps``; with ``texts`` it writes ``new`` tokens after each
instead. The result: ``ttft_ms`` and ``tokens_per_s`` of each lap, or ``written``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.bundle.folder import open_bundle
from edgec.devices.job import Job
from edgec.runtime_py.bench.job import SessionLaps
from edgec.runtime_py.bench.lap import Laps
from edgec.runtime_py.bench.litert_lm import LitertLmLaps
from edgec.runtime_py.runners.litert_lm import LitertLmQuestion, asked_litert_lm


def main() -> None:
    """Do what the job on stdin says; print its result."""
    job: Mapping[str, Any] = json.load(sys.stdin)
    file = Path(job["file"])
    print(json.dumps(_written(file, job["texts"], job["new"]) if "texts" in job else _timed(file, job)))


def _timed(file: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    job = Job("speed", str(file), asked["prompt"], asked["new"], threads=asked["threads"])
    laps: Laps = SessionLaps(open_bundle(file), job) if file.is_dir() else LitertLmLaps(file, job)
    laps.lap()
    made = [laps.lap() for _ in range(asked["laps"])]
    return {
        "ttft_ms": [lap.ttft_s * 1e3 for lap in made],
        "tokens_per_s": [len(lap.gaps_s) / sum(lap.gaps_s) for lap in made],
    }


def _written(file: Path, texts: Sequence[str], tokens: int) -> dict[str, Any]:
    if not file.is_dir():
        said = asked_litert_lm(file, LitertLmQuestion((), texts, (), tokens))
        return {"written": ["".join(each.pieces) for each in said.written]}
    import edgec

    model = edgec.load(file)
    return {"written": [model.generate(text, max_new_tokens=tokens).text for text in texts]}


if __name__ == "__main__":
    main()
