"""``audio.h`` through ctypes over functions in Python, compiled as an app compiles it: without ExecuTorch."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.apps.embed.engine_sources import speech_sources
from edgec.engine.compile.abi import NATIVE, find_compiler
from edgec.engine.compile.build import SOURCES
from tests.engine.compiled import INCLUDES
from tests.engine.vision_library import Refused

_LETTERS = 512
_FAILED = 2
_SEGMENT, _DONE = 1, 2
Values = NDArray[np.float32]
_READ = CFUNCTYPE(c_int32, c_void_p, POINTER(c_float), c_size_t)
_FEED = CFUNCTYPE(c_int32, c_void_p, POINTER(c_int64), c_size_t, c_int64, POINTER(POINTER(c_float)), POINTER(c_size_t))


class _Calls(ctypes.Structure):
    """``EdgecAudioCalls``."""

    _fields_ = [("context", c_void_p), ("read", _READ), ("feed", _FEED)]


class _Options(ctypes.Structure):
    """``EdgecAudioOptions``."""

    _fields_ = [("language", c_char_p), ("task", c_char_p), ("timestamps", c_int32), ("most_tokens", c_int64)]


class _Segment(ctypes.Structure):
    """``EdgecSegment``."""

    _fields_ = [("start_s", c_double), ("end_s", c_double), ("tokens", POINTER(c_int64)), ("token_count", c_size_t)]


@dataclass(frozen=True)
class Said:
    """A segment: its times in seconds, and its tokens with timestamps among them."""

    start_s: float
    end_s: float
    tokens: list[int]


@cache
def audio_library() -> ctypes.CDLL:
    """The library."""
    made = Path(mkdtemp(prefix="edgec-")) / "libspeech.so"
    sources = [SOURCES / name for name in speech_sources() if name.endswith(".cpp")]
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC", "-shared"]
    # Missing symbols would be found only when they are called.
    line = [find_compiler(NATIVE), *flags, "-Wl,-z,defs", *INCLUDES, *sources, "-o", made]
    subprocess.run([str(word) for word in line], check=True)
    loaded = ctypes.CDLL(str(made))
    loaded.edgec_audio_open_called.restype = c_void_p
    return loaded


class CalledAudio:
    """An ``EdgecAudio`` over two functions.

    Attributes:
        failure: what a function raised last.
    """

    def __init__(self, bundle: Path, read: Callable[[Values], None], feed: Callable[[list[int], int], Values]) -> None:
        """Open a bundle; ``read`` gets a source in row order, ``feed`` tokens and the first one's position."""
        self._own_read, self._own_feed = read, feed
        self.failure: Exception | None = None
        self._logits: Values = np.zeros(0, np.float32)
        calls, error = _Calls(None, _READ(self._read), _FEED(self._feed)), ctypes.create_string_buffer(_LETTERS)
        self._kept = calls
        opened = audio_library().edgec_audio_open_called(bytes(bundle), byref(calls), error, c_size_t(_LETTERS))
        if not opened:
            raise Refused(_FAILED, error.value.decode())
        self.handle = c_void_p(opened)

    def _read(self, _: Any, source: Any, count: int) -> int:
        return self._told(lambda: self._own_read(np.ctypeslib.as_array(source, (count,)).copy()))

    def _feed(self, _: Any, tokens: Any, count: int, start: int, logits: Any, vocabulary: Any) -> int:
        def fed() -> None:
            self._logits = np.ascontiguousarray(self._own_feed(tokens[:count], start), np.float32)
            logits[0] = self._logits.ctypes.data_as(POINTER(c_float))
            vocabulary[0] = self._logits.size

        return self._told(fed)

    def _told(self, body: Callable[[], None]) -> int:
        try:
            body()
        except Exception as failure:
            self.failure = failure
            return 1
        return 0

    def transcribe(
        self, samples: Values, rate: int, language: str | None = None, task: str | None = None, **numbers: int
    ) -> list[Said]:
        """What is said in samples; ``numbers``: ``timestamps`` and ``most_tokens``."""
        options = _Options(_bytes(language), _bytes(task), numbers.get("timestamps", 0), numbers.get("most_tokens", 0))
        given = samples.ctypes.data_as(POINTER(c_float))
        self._call("begin", given, c_int64(samples.size), c_int64(rate), byref(options))
        said, progress, segment = list[Said](), c_int32(), _Segment()
        while progress.value != _DONE:
            self._call("step", byref(progress), byref(segment))
            if progress.value == _SEGMENT:
                said.append(Said(segment.start_s, segment.end_s, segment.tokens[: segment.token_count]))
        return said

    def read(self, source: Values) -> None:
        """Read a source, as for golden vectors."""
        self._call("read", source.ctypes.data_as(POINTER(c_float)), c_size_t(source.size))

    def feed(self, tokens: Sequence[int], start: int) -> Values:
        """The logits after the last of these tokens."""
        logits, vocabulary, fed = POINTER(c_float)(), c_size_t(), (c_int64 * len(tokens))(*tokens)
        self._call("feed", fed, c_size_t(len(tokens)), c_int64(start), byref(logits), byref(vocabulary))
        return np.ctypeslib.as_array(logits, (vocabulary.value,)).copy()

    def close(self) -> None:
        """Close it."""
        audio_library().edgec_audio_close(self.handle)

    def _call(self, name: str, *arguments: Any) -> None:
        error = ctypes.create_string_buffer(_LETTERS)
        status = getattr(audio_library(), f"edgec_audio_{name}")(self.handle, *arguments, error, c_size_t(_LETTERS))
        if status:
            raise Refused(status, error.value.decode())


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
