"""The engine's functions for structured texts, called from Python."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL, POINTER, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p, create_string_buffer
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

OPEN, WHOLE, ENDED = 0, 1, 2
_LETTERS: Final = 512


class StructureRefused(Exception):
    """The engine refused or failed, with its text."""


class StructureLibrary:
    """A library that has the functions: the engine, or its parts alone."""

    def __init__(self, path: Path) -> None:
        self.c = c = CDLL(str(path))
        for name in ("structure", "text"):
            getattr(c, f"edgec_{name}_open").restype = c_void_p
            getattr(c, f"edgec_{name}_close").argtypes = [c_void_p]
        c.edgec_structure_open.argtypes = [c_char_p, c_char_p, c_char_p, c_size_t]
        c.edgec_text_open.argtypes = [c_void_p, c_int64, c_char_p, c_size_t]
        c.edgec_text_mask.argtypes = [c_void_p, POINTER(c_float), c_size_t, c_char_p, c_size_t]
        c.edgec_text_take.argtypes = [c_void_p, c_int64, c_char_p, c_size_t]
        c.edgec_text_state.argtypes = [c_void_p]
        c.edgec_text_state.restype = c_int

    def structure(self, grammar: Path, vocabulary: Path) -> Structure:
        """Open a compiled schema."""
        error = create_string_buffer(_LETTERS)
        handle = self.c.edgec_structure_open(bytes(grammar), bytes(vocabulary), error, _LETTERS)
        if not handle:
            raise StructureRefused(error.value.decode())
        return Structure(self.c, handle)


class Structure:
    """A compiled schema."""

    def __init__(self, c: Any, handle: int) -> None:
        self._c, self._handle = c, handle

    def __del__(self) -> None:
        self._c.edgec_structure_close(self._handle)

    def begin(self, budget: int) -> StructuredText:
        """Begin a text of at most ``budget`` tokens."""
        error = create_string_buffer(_LETTERS)
        handle = self._c.edgec_text_open(self._handle, budget, error, _LETTERS)
        if not handle:
            raise StructureRefused(error.value.decode())
        return StructuredText(self._c, handle)


class StructuredText:
    """One text."""

    def __init__(self, c: Any, handle: int) -> None:
        self._c, self._handle = c, handle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._c.edgec_text_close(self._handle)

    def mask(self, logits: Sequence[float] | NDArray[np.float32]) -> NDArray[np.float32]:
        """The logits with -inf for each token that may not come next."""
        out, error = np.array(logits, np.float32), create_string_buffer(_LETTERS)
        values = out.ctypes.data_as(POINTER(c_float))
        if self._c.edgec_text_mask(self._handle, values, out.size, error, _LETTERS):
            raise StructureRefused(error.value.decode())
        return out

    def take(self, token: int) -> None:
        """Move on by a token."""
        error = create_string_buffer(_LETTERS)
        if self._c.edgec_text_take(self._handle, token, error, _LETTERS):
            raise StructureRefused(error.value.decode())

    @property
    def state(self) -> int:
        """OPEN, WHOLE or ENDED."""
        return int(self._c.edgec_text_state(self._handle))
