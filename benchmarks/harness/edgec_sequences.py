"""edgec with several sessions, each call of the model for all of them.

A job has ``artifact`` (the bundle), ``threads``, ``sequences`` and ``loads``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.serving_load import Fed, serve


class EdgecSequences:
    """Sessions of one bundle; calls beyond the artifact's rows or tokens are split."""

    def __init__(self, bundle: Path, threads: int, sequences: int) -> None:
        from edgec.bundle.folder import open_bundle
        from edgec.runtime_py.sessions.session import Session

        opened = open_bundle(bundle, check_files=False)
        self._sessions = [Session(opened, threads) for _ in range(sequences)]
        self._limits = self._sessions[0].limits
        self.vocab_size = int(opened.manifest.model.vocab_size or 0)

    def step(self, fed: Sequence[Fed]) -> list[int]:
        """See ``Sequences.step``."""
        from edgec.runtime_py.sessions.step import SessionCall, step

        written: list[int] = []
        for part in self._within_limits(fed):
            rows = [(len(one.tokens) - 1,) if one.wanted else () for one in part]
            if not any(rows):
                rows[0] = (len(part[0].tokens) - 1,)
            calls = [
                SessionCall(self._sessions[one.sequence], one.tokens, one.start, row)
                for one, row in zip(part, rows, strict=True)
            ]
            made = step(calls)
            written += [int(logits[0].argmax()) for one, logits in zip(part, made, strict=True) if one.wanted]
        return written

    def _within_limits(self, fed: Sequence[Fed]) -> list[list[Fed]]:
        parts: list[list[Fed]] = [[]]
        for one in fed:
            tokens = sum(len(each.tokens) for each in parts[-1]) + len(one.tokens)
            rows = sum(each.wanted for each in parts[-1]) + one.wanted
            if parts[-1] and (tokens > self._limits.prefill_chunk or rows > self._limits.logit_rows):
                parts.append([])
            parts[-1].append(one)
        return parts


def open_model(job: Mapping[str, Any]) -> EdgecSequences:
    """Open the model of a job."""
    return EdgecSequences(Path(job["artifact"]), job["threads"], job["sequences"])


if __name__ == "__main__":
    serve(open_model)
