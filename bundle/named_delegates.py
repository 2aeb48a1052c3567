"""Which of edgec's and XNNPACK's backends an ExecuTorch program names."""

from __future__ import annotations

import mmap
from pathlib import Path

OWN_DELEGATES = frozenset({"EdgecLinear", "EdgecEmbedding", "EdgecExperts"})
XNNPACK = "XnnpackBackend"
ON_CPUS = OWN_DELEGATES | {XNNPACK}
"""The backends of artifacts for CPUs."""
# The file's extended header: a magic word, its own length, the program's size.
_MAGIC, _MAGIC_AT, _SIZE_AT, _SIZE_END = b"eh00", 8, 16, 24


def named_delegates(artifact: Path) -> frozenset[str]:
    """The backends whose names stand in a .pte's program; one that stands there by accident only costs its library."""
    if not artifact.is_file() or artifact.stat().st_size == 0:
        return frozenset()
    with artifact.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        known = data[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] == _MAGIC
        end = int.from_bytes(data[_SIZE_AT:_SIZE_END], "little") if known else len(data)
        return frozenset(name for name in ON_CPUS if data.find(name.encode(), 0, min(end, len(data))) >= 0)
