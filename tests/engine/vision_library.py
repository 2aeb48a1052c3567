"""``vision.h`` through ctypes, linked with the engine's library."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from edgec.engine.compile.build import build_runner
from edgec.runtime_py.engines.engine_library import RawTensor, library
from tests.engine.compiled import compiled

_LETTERS = 512


class Info(ctypes.Structure):
    """``EdgecVisionInfo``."""

    _fields_ = [
        *((name, c_int64) for name in ("channels", "height", "width", "rows", "image_token", "context")),
        ("placeholder", c_char_p),
        ("special_tokens", c_int32),
        ("needs_image", c_int32),
    ]


class Pixels(ctypes.Structure):
    """``EdgecImage``."""

    _fields_ = [
        ("pixels", c_void_p),
        *((name, c_int64) for name in ("width", "height", "line_bytes")),
        ("pixel_bytes", c_int32),
    ]


class Tiles(ctypes.Structure):
    """``EdgecImageTiles``."""

    _fields_ = [(name, c_int64) for name in ("columns", "lines", "tiles", "tokens")]


class Times(ctypes.Structure):
    """``EdgecVisionTimes``."""

    _fields_ = [("prepare_ms", c_double), ("encode_ms", c_double)]


class InputEmbeds(ctypes.Structure):
    """``EdgecInputEmbeds``."""

    _fields_ = [
        ("token_count", c_int64),
        ("embeds", c_void_p),
        ("count", c_int64),
        ("width", c_int64),
        ("positions", c_void_p),
        ("span_end", c_void_p),
        ("mrope", c_void_p),
        ("mrope_next", c_int64),
    ]


class Refused(Exception):
    """A status other than EDGEC_OK."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


@cache
def vision_library() -> ctypes.CDLL:
    """The library, whose engine is the process's own."""
    library()
    loaded = ctypes.CDLL(str(compiled("vision", built=build_runner())))
    loaded.edgec_vision_open.restype = c_void_p
    return loaded


def call(name: str, *arguments: Any) -> None:
    """Call a function that returns a status; ``Refused`` where it is not EDGEC_OK."""
    error = ctypes.create_string_buffer(_LETTERS)
    known = vision_library() if name.startswith("edgec_vision") else library()
    status = getattr(known, name)(*arguments, error, c_size_t(_LETTERS))
    if status:
        raise Refused(status, error.value.decode())


class Vision:
    """An ``EdgecVision``."""

    def __init__(self, bundle: Path, artifact: Path | None = None) -> None:
        """Open a bundle's vision encoder."""
        error, status = ctypes.create_string_buffer(_LETTERS), c_int32()
        paths = (bytes(bundle), bytes(artifact or bundle / "model.pte"))
        opened = vision_library().edgec_vision_open(*paths, None, byref(status), error, c_size_t(_LETTERS))
        if not opened:
            raise Refused(status.value, error.value.decode())
        self.handle = c_void_p(opened)

    def close(self) -> None:
        """Close it."""
        vision_library().edgec_vision_close(self.handle)

    def info(self) -> Info:
        """Its facts."""
        info = Info()
        vision_library().edgec_vision_info(self.handle, byref(info))
        return info

    def times(self) -> Times:
        """The times of the prompt so far."""
        times = Times()
        vision_library().edgec_vision_times(self.handle, byref(times))
        return times

    def tiles(self, width: int, height: int, images: int = 1) -> Tiles:
        """What becomes of an image."""
        tiles = Tiles()
        call("edgec_vision_tiles", self.handle, c_int64(width), c_int64(height), c_int64(images), byref(tiles))
        return tiles

    def text(self, width: int, height: int, images: int = 1) -> str:
        """What takes an image's place."""
        out, size = c_void_p(), c_size_t()
        sizes = (c_int64(width), c_int64(height), c_int64(images))
        call("edgec_vision_text", self.handle, *sizes, byref(out), byref(size))
        return ctypes.string_at(out, size.value).decode()

    def prompt(self, text: str, sizes: Sequence[tuple[int, int]]) -> str:
        """A whole prompt."""
        out, size, own = c_void_p(), c_size_t(), text.encode()
        edges = (c_int64 * max(1, 2 * len(sizes)))(*(edge for each in sizes for edge in each))
        counted = (own, c_size_t(len(own)), edges, c_int64(len(sizes)))
        call("edgec_vision_prompt", self.handle, *counted, byref(out), byref(size))
        return ctypes.string_at(out, size.value).decode()

    def prepare(self, image: Any, count: int, images: int = 1) -> np.ndarray:
        """An image's tiles, so many values."""
        out = np.zeros(count, np.float32)
        pixels, _kept = pixels_of(image)
        where = (out.ctypes.data_as(POINTER(c_float)), c_size_t(count))
        call("edgec_vision_prepare", self.handle, byref(pixels), c_int64(images), *where)
        return out

    def begin(self, images: int) -> None:
        """Begin a prompt."""
        call("edgec_vision_begin", self.handle, c_int64(images))

    def add(self, image: Any) -> None:
        """Add an image of Pillow."""
        pixels, _kept = pixels_of(image)
        call("edgec_vision_add", self.handle, byref(pixels))

    def step(self) -> int:
        """Read a tile; how many are left."""
        left = c_int64()
        call("edgec_vision_step", self.handle, byref(left))
        return left.value

    def encode_images(self, tile: np.ndarray) -> None:
        """Read a tile as it is."""
        values = np.ascontiguousarray(tile, np.float32)
        call("edgec_vision_encode", self.handle, values.ctypes.data_as(POINTER(c_float)), c_size_t(values.size))

    def place(self, session: c_void_p, tokens: Sequence[int]) -> int:
        """Give the rows to a session; the tokens that are kept."""
        kept, ids = c_int64(), (c_int64 * max(1, len(tokens)))(*tokens)
        call("edgec_vision_place", self.handle, session, ids, c_size_t(len(tokens)), byref(kept))
        return kept.value


def pixels_of(image: Any, opaque: bool = True) -> tuple[Pixels, np.ndarray]:
    """An image of Pillow for a call, with the array that holds its pixels; ``opaque``: with a fourth byte."""
    values = np.asarray(image.convert("RGBA") if opaque else image)
    return Pixels(values.ctypes.data, image.width, image.height, 0, values.shape[2]), values


class DecoderSession:
    """A session of an artifact's ``forward``, as an app has it."""

    def __init__(self, artifact: Path) -> None:
        """Open the model and one session."""
        error = ctypes.create_string_buffer(_LETTERS)
        model = library().edgec_model_open(bytes(artifact), b"", None, error, c_size_t(_LETTERS))
        assert model, error.value
        self.model = c_void_p(model)
        self.handle = self._session()
        library().edgec_session_call_size.restype = c_int64
        library().edgec_model_embeds_width.restype = c_int64

    def _session(self) -> c_void_p:
        error = ctypes.create_string_buffer(_LETTERS)
        return c_void_p(library().edgec_session_open(self.model, 0, error, c_size_t(_LETTERS)))

    def reopen(self) -> None:
        """Close the session, and open another on the same model, which takes over its memory."""
        library().edgec_session_close(self.handle)
        self.handle = self._session()

    def close(self) -> None:
        """Close both."""
        library().edgec_session_close(self.handle)
        library().edgec_model_close(self.model)

    def embeds_width(self) -> int:
        """Of the embeds that it reads."""
        return int(library().edgec_model_embeds_width(self.model))

    def call_size(self, start: int, end: int) -> int:
        """Of the next call."""
        return int(library().edgec_session_call_size(self.handle, c_int64(start), c_int64(end)))

    def forward(self, tokens: Sequence[int], start: int) -> np.ndarray:
        """Feed tokens; the logits of the last one."""
        count = len(tokens)
        ids, places = (c_int64 * count)(*tokens), (c_int64 * count)(*range(start, start + count))
        call("edgec_session_forward", self.handle, ids, places, c_size_t(count), (c_int64 * 1)(count - 1), c_size_t(1))
        out = RawTensor()
        assert library().edgec_session_output(self.handle, c_size_t(0), byref(out)) == 0
        return np.ctypeslib.as_array(ctypes.cast(out.data, POINTER(c_float)), (out.sizes[2],)).copy()

    def greedy(self, prompt: Sequence[int], count: int, start: int = 0) -> list[int]:
        """Read a prompt from ``start`` on and continue it."""
        tokens, said = list(prompt), []
        while start < len(tokens):
            size = self.call_size(start, len(tokens))
            assert size > 0
            logits, start = self.forward(tokens[start : start + size], start), start + size
        for _ in range(count):
            said.append(int(logits.argmax()))
            logits = self.forward(said[-1:], start)
            start += 1
        return said

    def put_embeds(self, given: InputEmbeds | None) -> None:
        """Put embeds in."""
        call("edgec_session_input_embeds", self.handle, byref(given) if given is not None else None)
