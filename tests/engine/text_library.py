"""``text.h`` through ctypes, compiled as an app compiles it: without anything of ExecuTorch."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator, Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.apps.embed.engine_sources import text_sources
from edgec.apps.embed.notation_facts import notation_facts
from edgec.apps.embed.reply_facts import ReplyFacts
from edgec.engine.compile.abi import NATIVE, find_compiler
from edgec.engine.compile.build import SOURCES
from edgec.runtime_py.sampling import Sampling
from tests.engine.compiled import INCLUDES
from tests.engine.vision_library import Refused

MALFORMED = 3
PHASES = ("start", "think", "answer")
KINDS = ("text", "reasoning", "call")
_LETTERS = 512
DecodeTokens = Callable[[list[int]], str]


class RawString(ctypes.Structure):
    """``EdgecString``."""

    _fields_ = [("text", c_char_p), ("bytes", c_size_t)]

    def __str__(self) -> str:
        # Of a field of c_char_p, the bytes up to the first zero are all that Python gives.
        place = ctypes.cast(ctypes.byref(self), POINTER(ctypes.c_void_p))[0]
        return ctypes.string_at(place, self.bytes).decode() if place else ""


class RawCall(ctypes.Structure):
    """``EdgecToolCall``."""

    _fields_ = [("name", RawString), ("arguments", RawString)]


class RawPiece(ctypes.Structure):
    """``EdgecPiece``."""

    _fields_ = [("kind", c_int32), ("text", RawString), ("calls", POINTER(RawCall)), ("call_count", c_size_t)]


class RawReplyState(ctypes.Structure):
    """``EdgecReplyState``."""

    _fields_ = [
        *(("shown", RawString), ("reasoning", RawString), ("raw", RawString)),
        *(("thought_end", c_size_t), ("stopped_by", c_int64)),
    ]


class RawNext(ctypes.Structure):
    """``EdgecThinkingNext``."""

    _fields_ = [("only", c_int64), ("also", c_int64), ("thinking", c_int32), ("answer", c_int32)]


class RawSampling(ctypes.Structure):
    """``EdgecSampling``."""

    _fields_ = [
        *(("temperature", c_double), ("top_k", c_int64), ("top_p", c_double), ("min_p", c_double)),
        *(("repetition_penalty", c_double), ("presence_penalty", c_double), ("frequency_penalty", c_double)),
        *(("biased", POINTER(c_int64)), ("biases", POINTER(c_double)), ("bias_count", c_size_t)),
        *(("seed", c_uint64), ("seeded", c_int32)),
    ]


DECODE = CFUNCTYPE(c_int, ctypes.c_void_p, POINTER(c_int64), c_size_t, POINTER(RawString))
HANDLES = ("text_stream_open", "notations_read", "reply_open", "thinking_open", "sampler_open")


@cache
def text_library() -> ctypes.CDLL:
    """The library."""
    made = Path(mkdtemp(prefix="edgec-")) / "libtext.so"
    sources = [SOURCES / name for name in text_sources() if name.endswith(".cpp")]
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC", "-shared"]
    line = [find_compiler(NATIVE), *flags, *INCLUDES, *sources, "-o", made]
    subprocess.run([str(word) for word in line], check=True)
    loaded = ctypes.CDLL(str(made))
    for name in HANDLES:
        getattr(loaded, f"edgec_{name}").restype = ctypes.c_void_p
    return loaded


def decoder(decode: DecodeTokens) -> Any:
    """An ``EdgecDecode`` of a function in Python."""
    kept: list[bytes] = []

    def write(_: Any, tokens: Any, count: int, text: Any) -> int:
        kept[:] = [decode(tokens[:count]).encode()]
        text[0] = RawString(kept[0], len(kept[0]))
        return 0

    return DECODE(write)


def integers(values: Sequence[int]) -> Any:
    """An array of int64."""
    return (c_int64 * max(1, len(values)))(*values)


class Handle:
    """One handle of the library."""

    def __init__(self, kind: str, made: str, *arguments: Any) -> None:
        error, self._kind = ctypes.create_string_buffer(_LETTERS), kind
        opened = getattr(text_library(), f"edgec_{kind}_{made}")(*arguments, error, c_size_t(_LETTERS))
        if not opened:
            raise Refused(0, error.value.decode())
        self.handle = ctypes.c_void_p(opened)

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            getattr(text_library(), f"edgec_{self._kind}_close")(self.handle)

    def ask(self, name: str, *arguments: Any) -> Any:
        """A function that cannot fail."""
        return getattr(text_library(), f"edgec_{self._kind}_{name}")(self.handle, *arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """A function that can fail."""
        error = ctypes.create_string_buffer(_LETTERS)
        status = self.ask(name, *arguments, error, c_size_t(_LETTERS))
        if status:
            raise Refused(status, error.value.decode())


class NativeTextStream(Handle):
    """An ``EdgecTextStream``."""

    def __init__(self, decode: DecodeTokens, prompt: Sequence[int] = ()) -> None:
        """Begin after a prompt."""
        self._decode = decoder(decode)
        super().__init__("text_stream", "open", self._decode, None, integers(prompt), c_size_t(len(prompt)))

    def push(self, token: int) -> str:
        """The text that a token completes."""
        text = RawString()
        self.call("push", c_int64(token), byref(text))
        return str(text)

    def flush(self) -> str:
        """The rest."""
        text = RawString()
        self.call("flush", byref(text))
        return str(text)


class NativeNotations(Handle):
    """An ``EdgecNotations``."""

    def __init__(self, facts: ReplyFacts | str) -> None:
        """Read facts."""
        text = (notation_facts(facts) if isinstance(facts, ReplyFacts) else facts).encode()
        super().__init__("notations", "read", text, c_size_t(len(text)))


class NativeReply(Handle):
    """An ``EdgecReply``."""

    def __init__(self, notations: NativeNotations | None, stops: Sequence[str] = (), reasoning: bool = False) -> None:
        """Begin a message."""
        self._notations, self.stops = notations, list(stops)
        texts = [stop.encode() for stop in stops]
        raw = (RawString * max(1, len(texts)))(*(RawString(text, len(text)) for text in texts))
        known = notations and notations.handle
        super().__init__("reply", "open", known, raw, c_size_t(len(texts)), c_int(reasoning))

    def feed(self, text: str | bytes) -> None:
        """Read more."""
        raw = text if isinstance(text, bytes) else text.encode()
        self.call("feed", raw, c_size_t(len(raw)))

    def finish(self) -> None:
        """Read what was kept back."""
        self.call("finish")

    def drain(self) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
        """The pieces that are certain: kind, text, and calls with their arguments as JSON."""
        piece = RawPiece()
        while self.ask("piece", byref(piece)):
            calls = [(str(each.name), str(each.arguments)) for each in piece.calls[: piece.call_count]]
            yield KINDS[piece.kind], str(piece.text), calls

    @property
    def state(self) -> RawReplyState:
        """How far it has come."""
        state = RawReplyState()
        self.ask("state", byref(state))
        return state

    @property
    def stopped_by(self) -> str | None:
        """The stop string that has ended the answer."""
        return None if self.state.stopped_by < 0 else self.stops[self.state.stopped_by]


class NativeThinking(Handle):
    """An ``EdgecThinking``."""

    def __init__(self, notations: NativeNotations | None, decode: DecodeTokens, phase: str, budget: int | None) -> None:
        """Begin a message."""
        self._notations, self._decode = notations, decoder(decode)
        limit = c_int64(-1 if budget is None else budget)
        known = notations and notations.handle
        super().__init__("thinking", "open", known, self._decode, None, c_int32(PHASES.index(phase)), limit)

    @property
    def next(self) -> RawNext:
        """What may come next."""
        next_ = RawNext()
        self.ask("next", byref(next_))
        return next_

    def gives(self, token: int, allowed: bool) -> bool:
        """Whether the structure of the answer is to take a token, too."""
        return bool(self.ask("gives", c_int64(token), c_int(allowed)))

    def take(self, token: int, given: bool) -> bool:
        """Take a token; whether the answer begins."""
        begins = c_int32()
        self.call("take", c_int64(token), c_int(given), byref(begins))
        return bool(begins.value)


class NativeSampler(Handle):
    """An ``EdgecSampler``."""

    def __init__(self, sampling: Sampling, prompt: Sequence[int] = ()) -> None:
        """Choose what follows a prompt."""
        asked, (biased, biases) = sampling, (list(sampling.logit_bias), list(sampling.logit_bias.values()))
        raw = RawSampling(
            *(asked.temperature, asked.top_k, asked.top_p, asked.min_p, asked.repetition_penalty),
            *(asked.presence_penalty, asked.frequency_penalty, integers(biased)),
            *((c_double * max(1, len(biases)))(*biases), len(biased), asked.seed or 0, asked.seed is not None),
        )
        super().__init__("sampler", "open", byref(raw), integers(prompt), c_size_t(len(prompt)))

    def choose(self, logits: NDArray[np.float32]) -> int:
        """The next token, which it takes."""
        token = c_int64()
        self.call("choose", self._at(logits), c_size_t(len(logits)), byref(token))
        self.take(token.value)
        return token.value

    def take(self, token: int) -> None:
        """A token was written."""
        self.call("take", c_int64(token))

    def scores(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """The logits by which a token is drawn."""
        made = np.empty_like(logits)
        self.call("scores", self._at(logits), c_size_t(len(logits)), self._at(made))
        return made

    @staticmethod
    def _at(values: NDArray[np.float32]) -> Any:
        return values.ctypes.data_as(POINTER(c_float))
