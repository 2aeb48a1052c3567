"""The reading of a message as it is written: reasoning, the answer and calls told apart by their markers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from edgec.bundle.notations import PLAIN, CallForm, ThinkingForm
from edgec.runtime_py.decoding.stopping import StopText
from edgec.runtime_py.decoding.text_stream import TextStream
from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.messages.refusals import malformed_call

TEXT: Final = "text"
REASONING: Final = "reasoning"
CALL: Final = "call"
Read = Callable[[str], list[ToolCall]]


@dataclass(frozen=True)
class Piece:
    """A piece of a message.

    Attributes:
        kind: ``text``, ``reasoning`` or ``call``.
        text: what was added; of a call, the call as the model wrote it.
        calls: those that became whole with it.
    """

    kind: str
    text: str
    calls: tuple[ToolCall, ...] = ()


class MessageReader:
    """Reads one message; markers, and the space around them, do not belong to the parts that they separate.

    Attributes:
        shown: the answer so far.
        reasoning: the reasoning so far.
        calls: the calls so far.
        raw: all of the message with its markers.
    """

    def __init__(
        self,
        stream: TextStream,
        stops: Sequence[str] = (),
        *,
        thinking: ThinkingForm | None = None,
        calls: CallForm | None = None,
        read: Read | None = None,
        reasoning: bool = False,
    ) -> None:
        """Begin a message.

        Args:
            stream: tokens to text, markers included.
            stops: strings that end the answer; reasoning and calls may hold them.
            thinking: the notation of reasoning.
            calls: the notation of calls; None reads none.
            read: reads what stands between a call's markers.
            reasoning: the prompt has opened the reasoning already.
        """
        self._stream, self._stop = stream, StopText(stops)
        self._thinking, self._calls, self._read = thinking, calls, read
        self._kind, self._held, self._space, self._begun = REASONING if reasoning else TEXT, "", "", False
        self._fresh: list[Piece] = []
        frame = next((form.frame for form in (calls, thinking) if form is not None), PLAIN)
        marks = (frame.lead, frame.answer, frame.note, frame.note_end, calls.before if calls else "")
        self._dropped = tuple(mark for mark in marks if mark)
        self.shown = self.reasoning = self.raw = ""
        self.calls: tuple[ToolCall, ...] = ()

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended the answer."""
        return self._stop.hit is not None

    @property
    def stopped_by(self) -> str | None:
        """The stop string that has ended the answer."""
        return self._stop.hit

    def push(self, token: int) -> None:
        """Read one more token."""
        self._feed(self._stream.push(token))

    def close(self) -> None:
        """Read what was held back, once nothing more comes.

        Raises:
            MalformedCall: E623, a call was opened and is none.
        """
        if self.stopped:
            return
        self._feed(self._stream.flush())
        held, self._held = self._held, ""
        if self._kind == CALL:
            self._finish_call(held)
        elif not self.stopped:
            self._write(held)
        if not self.stopped:
            self._show(self._stop.flush())

    def drain(self) -> Iterator[Piece]:
        """The pieces that became certain since the last time."""
        while self._fresh:
            yield self._fresh.pop(0)

    def _marks(self) -> dict[str, str]:
        """Each marker that may come now, with the kind of what follows it."""
        if self._kind == REASONING:
            assert self._thinking is not None
            return {self._thinking.close: TEXT}
        if self._kind == CALL:
            assert self._calls is not None
            ends = {self._calls.close: TEXT} if self._calls.close else {}
            return ends or ({self._calls.open: CALL} if self._calls.many else {})
        marks = dict.fromkeys(self._dropped, TEXT)
        if self._thinking is not None:
            marks[self._thinking.open] = REASONING
        if self._calls is not None and not (self._calls.alone and (self.shown or self.calls)):
            marks[self._calls.open] = CALL
        return marks

    def _feed(self, text: str) -> None:
        self.raw += text
        self._held += text
        while not self.stopped:
            marks = self._marks()
            marked = [(self._held.find(mark), -len(mark), mark) for mark in marks if mark in self._held]
            if not marked:
                break
            place, _, mark = min(marked)
            if self._misplaced(mark, self._held[:place]):
                self._write(self._held[: place + len(mark)])
                self._held = self._held[place + len(mark) :]
                continue
            self._turn(place, mark, marks[mark])
        if self._kind != CALL and not self.stopped:
            keep = max((_overlap(self._held, mark) for mark in self._marks()), default=0)
            self._write(self._held[: len(self._held) - keep])
            self._held = self._held[len(self._held) - keep :]

    def _misplaced(self, mark: str, before: str) -> bool:
        """Whether a marker is text: that of a call which must be all of the message, after something else."""
        form = self._calls
        return form is not None and form.alone and mark == form.open and bool(before.strip())

    def _turn(self, place: int, mark: str, kind: str) -> None:
        """Finish what stands before a marker, and begin what follows it."""
        before, self._held = self._held[:place], self._held[place + len(mark) :]
        if self._kind == CALL:
            self._finish_call(before)
        else:
            self._write(before)
        if self._kind == TEXT and not self.stopped:
            self._show(self._stop.flush())
        self._space, self._begun, self._kind = "", False, kind

    def _finish_call(self, body: str) -> None:
        assert self._read is not None
        try:
            calls = tuple(self._read(body))
        except (ValueError, RecursionError) as cause:
            raise malformed_call(self.raw, str(cause)) from cause
        self.calls += calls
        self._fresh.append(Piece(CALL, body, calls))

    def _write(self, text: str) -> None:
        """Take text of the kind that is open; space at its ends is held back until more of it comes."""
        if self._kind == TEXT and not self._marked:
            self._show(self._stop.feed(text))
            return
        text = self._space + text
        text = text if self._begun else text.lstrip()
        body = text.rstrip()
        self._space = text[len(body) :]
        if not body:
            return
        earlier = self.shown if self._kind == TEXT else self.reasoning
        body, self._begun = body if self._begun or not earlier else f"\n{body}", True
        if self._kind == TEXT:
            self._show(self._stop.feed(body))
        else:
            self.reasoning += body
            self._fresh.append(Piece(REASONING, body))

    @property
    def _marked(self) -> bool:
        return self._thinking is not None or self._calls is not None

    def _show(self, text: str) -> None:
        if text:
            self.shown += text
            self._fresh.append(Piece(TEXT, text))


def only_text(made: Generator[Any, None, Generation]) -> Generator[str, None, Generation]:
    """The pieces of a text, or of a message's answer, as strings."""
    while True:
        try:
            piece = next(made)
        except StopIteration as end:
            result: Generation = end.value
            return result
        if isinstance(piece, str):
            yield piece
        elif piece.kind == TEXT:
            yield piece.text


def _overlap(text: str, mark: str) -> int:
    """The length of the longest end of ``text`` that ``mark`` begins with."""
    return next((n for n in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:n])), 0)
