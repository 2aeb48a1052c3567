"""A bundle's schema in edgec's engine: the masks of an app, which also close a text before its tokens run out."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgec.errors import InputError
from edgec.runtime_py.engines.engine_library import library, told


class EngineStructure:
    """A compiled schema with the bytes of its tokens; it may serve several texts."""

    def __init__(self, grammar: Path, vocabulary: Path) -> None:
        """Open the files of a bundle (``bundle/schemas.py``).

        Raises:
            InputError: E714, one of them is damaged.
            ToolError: see `library`.
        """
        self._path = grammar
        handle, why = told(library().edgec_structure_open, os.fsencode(grammar), os.fsencode(vocabulary))
        if not handle:
            fix = "export the bundle again"
            raise InputError("A schema in the bundle cannot be read.", str(grammar), why, fix, "E714")
        self._handle = handle
        weakref.finalize(self, library().edgec_structure_close, handle)

    def begin(self, budget: int) -> EngineText:
        """Begin a text of at most ``budget`` tokens. Raises InputError E614."""
        handle, why = told(library().edgec_text_open, self._handle, budget)
        if not handle:
            raise _too_complex(self._path, why)
        return EngineText(self._path, handle)


class EngineText:
    """One text, for one thread at a time; it keeps its structure."""

    def __init__(self, grammar: Path, handle: int) -> None:
        self._path, self._handle = grammar, handle
        weakref.finalize(self, library().edgec_text_close, handle)

    def mask(self, logits: NDArray[np.floating]) -> NDArray[np.float32]:
        """The logits [vocabulary] with -inf for every token that may not come, or after which no end is in reach.

        Raises:
            InputError: E614, the text became too complex.
        """
        out = np.array(logits, np.float32)
        failed, why = told(library().edgec_text_mask, self._handle, out.ctypes.data, out.size)
        if failed:
            raise _too_complex(self._path, why)
        return out

    def take(self, token: int) -> None:
        """Move on by a token that the mask leaves. Raises InputError E614, as `mask`."""
        failed, why = told(library().edgec_text_take, self._handle, token)
        if failed:
            raise _too_complex(self._path, why)


def _too_complex(path: Path, why: str) -> InputError:
    fix = "use a smaller or a flatter schema"
    return InputError("The text exceeds a limit of its schema.", str(path), why, fix, "E614")
