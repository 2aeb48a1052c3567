"""Measurements that ``edgec bench`` keeps in the cache, for ``edgec plan`` to learn from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from edgec.bundle.atomic import write_file
from edgec.errors import EdgecError
from edgec.installation import cache_root
from edgec.runtime_py.bench.record import AnyRecord, RepetitionRecord, RunRecord, record_lines

FOLDER = "measured"
"""Of the cache."""


def keep_run(records: Sequence[AnyRecord]) -> None:
    """Keep the speeds of a run in the cache, in place of an earlier one of the same bundle in the same conditions.

    Nothing is kept of emulators and of bundles of which a plan could learn nothing.
    """
    head = records[0]
    if head.simulated or head.subject.measured is None:
        return
    kept = [record for record in records if isinstance(record, RunRecord | RepetitionRecord)]
    same = head.comparability.model_dump_json() + head.subject.model_dump_json()
    name = f"{hashlib.sha256(same.encode()).hexdigest()[:32]}.jsonl"
    # The measurement stands whether or not it could be kept.
    with suppress(EdgecError, OSError):
        folder = cache_root() / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / name, record_lines(kept).encode())


def past_runs() -> tuple[Path, ...]:
    """The files of runs that were kept, in a stable order."""
    try:
        return tuple(sorted((cache_root() / FOLDER).glob("*.jsonl")))
    except (EdgecError, OSError):
        return ()
