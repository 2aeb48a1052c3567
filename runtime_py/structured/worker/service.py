"""What a forked process does: it describes, or compiles one structure and holds texts to it, message after message."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

from edgec.errors import EdgecError
from edgec.memory_use import peak_bytes
from edgec.runtime_py.structured.closing import Closer
from edgec.runtime_py.structured.constrained_text import ConstrainedText
from edgec.runtime_py.structured.descriptions import (
    Description,
    described_grammar,
    described_regex,
    described_schema,
    normalised,
)
from edgec.runtime_py.structured.engine import GrammarEngine, Matcher
from edgec.runtime_py.structured.refusals import too_much
from edgec.runtime_py.structured.worker.frames import TEXT, MessageSocket
from edgec.runtime_py.structured.worker.limits import MEMORY_BYTES, TEXT_SECONDS, TOKEN_SECONDS, limit_job

_Message = Mapping[str, Any]
_Answer = tuple[dict[str, Any], bytes]
_LONGEST_HINT: Final = 64
_DESCRIBE: Final[Mapping[str, Callable[[bytes], Description]]] = {
    "schema": described_schema,
    "regex": described_regex,
    "grammar": described_grammar,
}


class Service:
    """Answers messages. What the library finds wrong is an answer, too; what it cannot stand ends the process."""

    def __init__(self, engine: GrammarEngine | None, closer: Closer | None) -> None:
        """Serve with a vocabulary, or without one, which suffices to describe."""
        self._engine, self._closer = engine, closer
        self._matcher: Matcher | None = None
        self._texts: dict[int, ConstrainedText] = {}
        self._spent: dict[int, float] = {}
        self._jobs: Mapping[str, Callable[[_Message, bytes], _Answer]] = {
            "describe": self._describe,
            "normalise": lambda _, schema: ({}, json.dumps(normalised(schema)).encode()),
            "compile": self._compile,
            "begin": self._begin,
            "take": self._take,
            "mask": lambda message, _: ({}, self._mask(self._texts[message["text"]])),
            "fit": self._fit,
            "fork": self._fork,
        }

    def run(self, channel: MessageSocket) -> None:
        """_Answer until the other side ends."""
        while True:
            try:
                message, payload = channel.receive()
            except OSError:
                return
            limit_job()
            channel.send(*self.answer(message, payload))

    def answer(self, message: _Message, payload: bytes = b"") -> _Answer:
        """The answer to a message; where it holds ``error`` or ``fault``, that is why there is none."""
        for text in message.get("drop", ()):
            self._texts.pop(text, None)
            self._spent.pop(text, None)
        where = message.get("kind", TEXT)
        try:
            begun = time.process_time()
            answer = self._jobs[message["do"]](message, payload)
            if "text" in message:
                self._charge(message["text"], time.process_time() - begun)
            return answer
        except EdgecError as error:
            return {"error": _fields(error)}, b""
        except RecursionError:
            return {"error": _fields(too_much(where, "it is nested too deeply"))}, b""
        except MemoryError:
            return {"error": _fields(too_much(where, f"it needed more than {MEMORY_BYTES >> 20:,} MiB of memory"))}, b""
        except Exception:
            return {"fault": traceback.format_exc()}, b""

    def _charge(self, number: int, seconds: float) -> None:
        """Refuse to go on with a text whose tokens take too long: they may be many."""
        spent = self._spent[number] = self._spent.get(number, 0.0) + seconds
        if spent > TEXT_SECONDS + TOKEN_SECONDS * self._texts[number].place:
            raise too_much(TEXT, f"its tokens take more than {TOKEN_SECONDS * 1e3:g} ms of processor time each")

    def _describe(self, message: _Message, given: bytes) -> _Answer:
        made = _DESCRIBE[message["kind"]](given)
        return {"sought": made.sought}, made.grammar.encode()

    def _compile(self, message: _Message, grammar: bytes) -> _Answer:
        assert self._engine is not None and self._closer is not None
        before = peak_bytes()
        self._matcher = self._engine.compile(grammar.decode())
        hints = [self._shortest(sought) for sought in message["sought"]]
        self._closer = self._closer.hinted([hint for hint in hints if hint])
        return {"grown": peak_bytes() - before}, b""

    def _shortest(self, grammar: str) -> bytes:
        """A short text of a description as it stands within a JSON string; empty where none is found."""
        assert self._engine is not None and self._closer is not None
        way = self._closer.find_way_out(self._engine.compile(grammar), _LONGEST_HINT) or ()
        text = b"".join(self._engine.vocabulary.tokens[token] for token in way).decode(errors="replace")
        return json.dumps(text, ensure_ascii=False)[1:-1].encode()

    def _begin(self, message: _Message, _: bytes) -> _Answer:
        assert self._matcher is not None
        closer = self._closer if message["closes"] else None
        text = self._texts[message["text"]] = ConstrainedText(self._matcher.fork(), closer, message["budget"])
        return self._state(text, message, {})

    def _take(self, message: _Message, _: bytes) -> _Answer:
        text = self._texts[message["text"]]
        return self._state(text, message, {"token": text.take(message["token"])})

    def _fork(self, message: _Message, _: bytes) -> _Answer:
        text = self._texts[message["to"]] = self._texts[message["text"]].fork()
        self._spent[message["to"]] = self._spent.get(message["text"], 0.0)
        return self._state(text, message, {})

    def _fit(self, message: _Message, _: bytes) -> _Answer:
        count, whole = self._texts[message["text"]].fitting(message["tokens"])
        return {"count": count, "whole": whole}, b""

    def _state(self, text: ConstrainedText, message: _Message, held: dict[str, Any]) -> _Answer:
        """Where a text is, with the mask of its next token where it is likely to be asked for."""
        mask = b""
        if message["masks"] and not text.stopped:
            try:
                mask = self._mask(text)
            except EdgecError:  # told to whoever asks for the mask
                mask = b""
        return {**held, "accepting": text.accepting, "stopped": text.stopped}, mask

    @staticmethod
    def _mask(text: ConstrainedText) -> bytes:
        return text.packed().tobytes()


def _fields(error: EdgecError) -> dict[str, str]:
    return {name: getattr(error, name) for name in ("what", "where", "why", "fix", "code")}
