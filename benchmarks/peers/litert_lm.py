"""One ``.litertlm``, or a bundle of edgec's engine, as ``edgec bench`` times it, and what it writes.

A job has ``file``, ``threads``, ``prompt``, ``new`` and ``laps``; with ``questions`` it answers each in ``new`` tokens
instead. The result: ``ttft_ms`` and ``tokens_per_s`` of each lap (none where it ends too early), or ``written``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.bundle.folder import open_bundle
from edgec.devices.job import Job
from edgec.errors import InputError
from edgec.runtime_py.bench.job import SessionLaps
from edgec.runtime_py.bench.lap import Laps
from edgec.runtime_py.bench.litert_lm import LitertLmLaps
from edgec.runtime_py.runners.litert_lm import LitertLmQuestion, asked_litert_lm

_ENDS = "E962"
"""It writes fewer pieces than tokens were asked for, after every text that was tried."""


def main() -> None:
    """Do what the job on stdin says; print its result."""
    job: Mapping[str, Any] = json.load(sys.stdin)
    file = Path(job["file"])
    print(json.dumps(_written(file, job["questions"], job["new"]) if "questions" in job else _timed(file, job)))


def _timed(file: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    job = Job("speed", str(file), asked["prompt"], asked["new"], threads=asked["threads"])
    laps: Laps = SessionLaps(open_bundle(file), job) if file.is_dir() else LitertLmLaps(file, job)
    try:
        laps.lap()
        made = [laps.lap() for _ in range(asked["laps"])]
    except InputError as error:
        if error.code != _ENDS:
            raise
        made = []
    return {
        "ttft_ms": [lap.ttft_s * 1e3 for lap in made],
        "tokens_per_s": [len(lap.gaps_s) / sum(lap.gaps_s) for lap in made],
    }


def _written(file: Path, questions: Sequence[str], tokens: int) -> dict[str, Any]:
    if not file.is_dir():
        chats = [[{"role": "user", "content": question}] for question in questions]
        said = asked_litert_lm(file, LitertLmQuestion((), (), chats, tokens))
        return {"written": ["".join(each.pieces) for each in said.written]}
    import edgec

    model = edgec.load(file)
    return {
        "written": [model.chat().say(question, model.request(max_new_tokens=tokens)).text for question in questions]
    }


if __name__ == "__main__":
    main()
