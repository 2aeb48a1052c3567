"""Data of delegates in files until the program is written, so that no packed matrix stays in memory.

    delegate: 219 MB of bytes      ==>      delegate: SHELF/DIGEST, which the writer copies into the program

Measured: see docs/checkpoints.md, "Memory and time".
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from executorch.exir._serialize._cord import CordBuffer, FileBackedData
from executorch.exir._serialize._named_data_store import NamedDataStoreOutput

from edgec.backends.cpu.regions.outline import LoweredBackendModule

_LEAST = 1 << 20


def put_on_shelf(module: LoweredBackendModule, shelf: Path | None) -> None:
    """Move a delegate's data of a megabyte or more to files.

    Args:
        module: the delegate.
        shelf: a folder that exists until the program is written; None: everything stays in memory.
    """
    data: NamedDataStoreOutput | None = module.named_data_store_output
    if shelf is not None and data is not None:
        data.buffers[:] = [_filed(buffer, shelf) for buffer in data.buffers]


def _filed(buffer: CordBuffer, shelf: Path) -> CordBuffer:
    if not isinstance(buffer, bytes) or len(buffer) < _LEAST:
        return buffer
    digest = hashlib.sha256(buffer)
    file = shelf / digest.hexdigest()
    # Equal matrices are one file: that of a table and of the lm_head that is tied to it.
    if not file.exists():
        file.write_bytes(buffer)
    return FileBackedData(str(file), sha256=digest.digest())
