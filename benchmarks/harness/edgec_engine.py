"""edgec as an engine: a bundle in the Python session.

A job has ``artifact`` (the bundle) and ``threads``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.jobs import serve


class EdgecSession:
    """A session as an engine; long prompts are fed in chunks of the artifact's size."""

    def __init__(self, bundle: Path, threads: int) -> None:
        from edgec.bundle.folder import open_bundle
        from edgec.runtime_py.sessions.session import Session

        # Checksums are not part of a load, for any of the runtimes.
        self._session = Session(open_bundle(bundle, check_files=False), threads)
        self._chunk = self._session.limits.prefill_chunk
        self._logits: Any = None
        self.vocab_size = int(self._session.bundle.manifest.model.vocab_size or 0)

    def feed(self, tokens: Sequence[int], start: int, rows: int) -> None:
        """See ``Engine.feed``."""
        for offset in range(0, len(tokens), self._chunk):
            chunk = tokens[offset : offset + self._chunk]
            wanted = range(max(0, len(chunk) - rows), len(chunk))
            self._logits = self._session.forward(chunk, start + offset, list(wanted))

    def logits(self) -> list[list[float]]:
        """See ``Engine.logits``."""
        rows: list[list[float]] = self._logits.tolist()
        return rows


def open_engine(job: Mapping[str, Any]) -> EdgecSession:
    """Open the engine of a job."""
    return EdgecSession(Path(job["artifact"]), job["threads"])


def import_libraries(job: Mapping[str, Any]) -> None:
    """Load what executes the bundle: edgec's engine or ExecuTorch's binding, and the modules of a session."""
    import edgec.runtime_py.sessions.session  # noqa: F401
    from edgec.bundle.folder import read_manifest
    from edgec.runtime_py.engines.choice import choose_engine

    choose_engine(read_manifest(Path(job["artifact"])).runtime.operators)


if __name__ == "__main__":
    serve(open_engine, import_libraries)
