"""``edgec compare``: records of runs go to one comparison, bundles to the other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from edgec.bundle.hub.located import bundle_folder
from edgec.errors import InputError
from edgec.runtime_py.bench import compare as runs
from edgec.runtime_py.evaluate import side_by_side as bundles
from edgec.runtime_py.evaluate.reference import OpenReference


def compare_runs_or_bundles(
    subjects: Sequence[Path],
    allow: Sequence[str],
    text: Path | None,
    reference: str | None,
    tokens: int,
    threads: int | None,
    chart: Path | None,
    as_json: bool,
    opens: OpenReference | None = None,
) -> None:
    """Compare what was given, and print the result; ``opens`` opens the float model, as ``evaluate`` says.

    Raises:
        InputError: E160, neither two records of runs nor two or more bundles; else as either comparison.
    """
    subjects = [bundle_folder(subject) for subject in subjects]
    if len(subjects) >= 2 and all(path.is_dir() for path in subjects):
        say = _silent if as_json else _said
        rows = bundles.side_by_side(
            subjects, text, reference=reference, tokens=tokens, threads=threads, say=say, opens=opens
        )
        bundles.report(rows, chart, as_json)
    elif len(subjects) == 2 and not any(path.is_dir() for path in subjects):
        runs.report(runs.compare(subjects[0], subjects[1], allow), as_json)
    else:
        raise InputError(
            "There is nothing to compare.",
            where=", ".join(map(str, subjects)),
            why="edgec compares two records of runs, or two or more bundles, but not a record with a bundle",
            fix="edgec compare a.jsonl b.jsonl, or edgec compare A.edgec B.edgec ...",
            code="E160",
        )


def _said(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _silent(_: str) -> None:
    pass
