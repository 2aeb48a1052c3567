"""Low-rank changes inside edgec's engine: copied once for a model, then given to any of its sessions."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from ctypes import Structure, c_char_p, c_float, c_int32, c_int64, c_void_p
from typing import ClassVar, Protocol

import numpy as np

from edgec.bundle.tensor_file import FloatTensor
from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.engine_library import library

# As engine.h names the formats of numbers.
_DTYPES = {"F16": 5, "F32": 6, "BF16": 15}


class EngineChange(Protocol):
    """The change of one matrix: y += scale * b (a x)."""

    @property
    def key(self) -> str:
        """The matrix's key among the artifact's named data."""

    @property
    def a(self) -> FloatTensor:
        """The first matrix, [rank, width]."""

    @property
    def b(self) -> FloatTensor:
        """The second, [rows, rank]."""

    @property
    def scale(self) -> float:
        """The factor of b."""


class _LowRank(Structure):
    _fields_: ClassVar = [
        ("key", c_char_p),
        *((name, c_void_p) for name in ("a", "b")),
        *((name, c_int64) for name in ("rank", "width", "rows")),
        *((name, c_int32) for name in ("a_dtype", "b_dtype")),
        ("scale", c_float),
    ]


def _low_rank(change: EngineChange) -> _LowRank:
    """A change as the engine takes it, its numbers where they lie: it converts and turns them while it copies."""
    a, b = (np.frombuffer(tensor.data, np.uint8).ctypes.data for tensor in (change.a, change.b))
    sizes, dtypes = (*change.a.shape, change.b.shape[0]), (_DTYPES[change.a.dtype], _DTYPES[change.b.dtype])
    return _LowRank(change.key.encode(), a, b, *sizes, *dtypes, change.scale)


class EngineAdapter:
    """The changes of one adapter, for the sessions of one model; ``handle``: for ``EngineSession.use_adapter``."""

    def __init__(self, model: EngineModel, changes: Sequence[EngineChange]) -> None:
        """Copy the changes into the engine.

        Raises:
            InputError: E157, the artifact has no matrix of a key, or of another size.
        """
        rows = [_low_rank(change) for change in changes]
        self.model = model
        self.handle = model.open_adapter((_LowRank * len(rows))(*rows), len(rows))
        self.close = weakref.finalize(self, library().edgec_adapter_close, self.handle)
