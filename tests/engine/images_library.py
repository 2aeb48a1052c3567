"""``images.h`` through ctypes, compiled as an app compiles it: without anything of ExecuTorch."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from ctypes import POINTER, byref, c_float, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.apps.embed.engine_sources import image_sources
from edgec.engine.compile.abi import NATIVE, find_compiler
from edgec.engine.compile.build import SOURCES
from tests.engine.compiled import INCLUDES
from tests.engine.vision_library import Refused, Tiles, pixels_of

_LETTERS = 512


class RawPlaces(ctypes.Structure):
    """``EdgecImagePlaces``."""

    _fields_ = [
        ("rows", POINTER(c_int64)),
        ("row_count", c_int64),
        ("span_end", POINTER(c_int64)),
        ("mrope", POINTER(c_int64)),
        ("mrope_next", c_int64),
        ("kept", c_int64),
    ]


@cache
def images_library() -> ctypes.CDLL:
    """The library."""
    made = Path(mkdtemp(prefix="edgec-")) / "libimages.so"
    sources = [SOURCES / name for name in image_sources() if name.endswith(".cpp")]
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC", "-shared"]
    line = [find_compiler(NATIVE), *flags, *INCLUDES, *sources, "-o", made]
    subprocess.run([str(word) for word in line], check=True)
    loaded = ctypes.CDLL(str(made))
    loaded.edgec_images_open.restype = c_void_p
    return loaded


class Images:
    """An ``EdgecImages``."""

    def __init__(self, bundle: Path) -> None:
        """Open a bundle's description of its images."""
        error, status = ctypes.create_string_buffer(_LETTERS), c_int32()
        opened = images_library().edgec_images_open(bytes(bundle), byref(status), error, c_size_t(_LETTERS))
        if not opened:
            raise Refused(status.value, error.value.decode())
        self.handle = c_void_p(opened)

    def close(self) -> None:
        """Close it."""
        images_library().edgec_images_close(self.handle)

    def prompt(self, text: str, sizes: Sequence[tuple[int, int]]) -> str:
        """A whole prompt."""
        out, size, own = c_void_p(), c_size_t(), text.encode()
        edges = (c_int64 * max(1, 2 * len(sizes)))(*(edge for each in sizes for edge in each))
        self._call("prompt", own, c_size_t(len(own)), edges, c_int64(len(sizes)), byref(out), byref(size))
        return ctypes.string_at(out, size.value).decode()

    def count(self, width: int, height: int, of: int = 1) -> int:
        """How many tiles an image becomes."""
        tiles = Tiles()
        self._call("tiles", c_int64(width), c_int64(height), c_int64(of), byref(tiles))
        return int(tiles.tiles)

    def tiles(self, image: Any, shape: tuple[int, int, int], of: int = 1) -> NDArray[np.float32]:
        """An image's tiles, float32 [N, *shape]."""
        made = np.zeros((self.count(image.width, image.height, of), *shape), np.float32)
        pixels, _kept = pixels_of(image)
        where = (made.ctypes.data_as(POINTER(c_float)), c_size_t(made.size))
        self._call("prepare", byref(pixels), c_int64(of), *where)
        return made

    def places(self, tokens: Sequence[int], tiles: int) -> dict[str, Any]:
        """Where rows lie."""
        made, ids = RawPlaces(), (c_int64 * max(1, len(tokens)))(*tokens)
        self._call("places", ids, c_size_t(len(tokens)), c_int64(tiles), byref(made))
        return {
            "rows": made.rows[: made.row_count] if made.rows else [],
            "span_end": made.span_end[: len(tokens)] if made.span_end else None,
            "mrope": made.mrope[: 3 * len(tokens)] if made.mrope else None,
            "next": made.mrope_next,
            "kept": made.kept,
        }

    def _call(self, name: str, *arguments: Any) -> None:
        error = ctypes.create_string_buffer(_LETTERS)
        status = getattr(images_library(), f"edgec_images_{name}")(self.handle, *arguments, error, c_size_t(_LETTERS))
        if status:
            raise Refused(status, error.value.decode())
