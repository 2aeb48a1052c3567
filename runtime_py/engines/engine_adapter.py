"""Low-rank changes inside edgec's engine: copied once for a model, then given to any of its sessions."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from ctypes import Structure, c_char_p, c_int64, c_void_p
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.engine_library import library


class EngineChange(Protocol):
    """The change of one matrix: y += b (a x)."""

    @property
    def key(self) -> str:
        """The matrix's key among the artifact's named data."""

    @property
    def a(self) -> NDArray[np.float32]:
        """The first matrix, float32 [rank, width]."""

    @property
    def b(self) -> NDArray[np.float32]:
        """The second, scaled, float32 [rows, rank]."""


class _LowRank(Structure):
    _fields_: ClassVar = [
        ("key", c_char_p),
        *((name, c_void_p) for name in ("a", "b")),
        *((name, c_int64) for name in ("rank", "width", "rows")),
    ]


class EngineAdapter:
    """The changes of one adapter, for the sessions of one model; ``handle``: for ``EngineSession.use_adapter``."""

    def __init__(self, model: EngineModel, changes: Sequence[EngineChange]) -> None:
        """Copy the changes into the engine.

        Raises:
            InputError: E157, the artifact has no matrix of a key, or of another size.
        """
        held = [tuple(np.ascontiguousarray(matrix, dtype=np.float32) for matrix in (c.a, c.b)) for c in changes]
        rows = [
            _LowRank(c.key.encode(), a.ctypes.data, b.ctypes.data, a.shape[0], a.shape[1], b.shape[0])
            for c, (a, b) in zip(changes, held, strict=True)
        ]
        self.model = model
        self.handle = model.open_adapter((_LowRank * len(rows))(*rows), len(rows))
        self.close = weakref.finalize(self, library().edgec_adapter_close, self.handle)
