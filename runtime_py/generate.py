"""The decoding loop: prefill, choose, show, feed back, and stop for one of four reasons."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Integral
from time import perf_counter
from typing import Any

from edgec.errors import InputError
from edgec.runtime_py.sampling import Sampler, Sampling
from edgec.runtime_py.speculation.speculator import SpeculationCounts, Speculator
from edgec.runtime_py.stepper import Stepper, check_context
from edgec.runtime_py.stopping import StopText
from edgec.runtime_py.structured.refusals import contradiction
from edgec.runtime_py.structured.rule import Structure, TokenRule
from edgec.runtime_py.text_stream import TextStream

Decode = Callable[[list[int]], str]
Show = Callable[[str], None]


@dataclass(frozen=True)
class Memory:
    """What a text may reuse of those before it, and leaves for the next.

    Attributes:
        recall: makes the KV cache hold as many leading tokens of a prompt as it can without computing, and returns how
            many; fewer than all of them.
        keep: called when the prompt is computed, before the first new token is fed.
    """

    recall: Callable[[Sequence[int]], int] = lambda _: 0
    keep: Callable[[], None] = lambda: None


NO_MEMORY = Memory()


@dataclass(frozen=True)
class GenerationRequest:
    """The request for a text: its length, sampling and ends.

    Attributes:
        max_new_tokens: None continues to the end of the context.
        stop: strings that end the text; they are not part of it.
        eos: token ids that end the text.
        structure: what the text is held to (docs/structured-output.md); None for free text.
    """

    max_new_tokens: int | None = 256
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    eos: frozenset[int] = frozenset()
    structure: Structure | None = None

    def __post_init__(self) -> None:
        """Refuse a ``max_new_tokens`` that is not a count, and stop strings that would cut a structured text.

        Raises:
            InputError: E156, E610.
        """
        if self.structure is not None and self.stop:
            raise contradiction("Stop strings would cut a structured text.", "leave out stop, or the structure")
        count = self.max_new_tokens
        if count is not None and (isinstance(count, bool) or not isinstance(count, Integral) or count < 1):
            what, fix = f"max_new_tokens is {count!r:.60}.", "give a whole number, 1 or more"
            raise InputError(what, where="max_new_tokens", fix=fix, code="E156")


@dataclass(frozen=True, repr=False)
class Generation:
    """A generated text. All times are wall times measured in this process; None means unavailable.

    Attributes:
        text: the new text, without stop strings and special tokens.
        tokens: the new tokens, with the end-of-sequence token if it came.
        prompt_tokens: tokens of the prompt, of which ``cached_tokens`` were in the KV cache already.
        finish_reason: ``eos``, ``stop``, ``length`` (max_new_tokens), ``context`` (no position left) or ``complete`` (a
            structured text is whole, and nothing may or can follow).
        ttft_ms: from the tokens of the prompt to the first new token.
        token_ms: time from each new token to the next, in ms.
        load_ms: loading the artifact, where this call's model did it.
        speculation: counts of drafted tokens; None without speculation.
        value: what a whole structured text says: JSON as Python's values, an instance of the pydantic class, or the
            text that matches; None where the text is not whole.
    """

    text: str
    tokens: tuple[int, ...]
    prompt_tokens: int
    cached_tokens: int
    finish_reason: str
    ttft_ms: float
    token_ms: tuple[float, ...]
    load_ms: float | None = None
    speculation: SpeculationCounts | None = None
    value: Any = None

    def __repr__(self) -> str:
        speed = self.decode_tokens_per_s
        said = [repr(shorten(self.text)), f"{len(self.tokens)} tokens", f"finish_reason={self.finish_reason!r}"]
        return f"Generation({', '.join(said + ([f'{speed:,.0f} tokens/s'] if speed else []))})"

    @property
    def prefill_tokens_per_s(self) -> float:
        """Tokens of the prompt that were computed, per second until the first new token."""
        return (self.prompt_tokens - self.cached_tokens) / self.ttft_ms * 1e3

    @property
    def decode_tokens_per_s(self) -> float | None:
        """New tokens after the first, per second."""
        return len(self.token_ms) / sum(self.token_ms) * 1e3 if self.token_ms else None


def shorten(text: str, most: int = 60) -> str:
    """A text of at most so many characters, with an ellipsis where it was cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def stream_tokens(stepper: Stepper, prompt: Sequence[int], choose: Sampler, cached: int = 0) -> Iterator[int]:
    """Generate tokens until the context is full; each is fed back only when the next one is requested.

    Args:
        stepper: the model.
        prompt: the whole sequence so far.
        choose: picks a token from logits and history.
        cached: leading tokens of ``prompt`` that the KV cache holds already; fewer than all of them.

    Raises:
        InputError: E150, E151 before anything is executed.
    """
    history = list(prompt)
    check_context(len(history), stepper.limits.context)
    logits = stepper.prefill(history[cached:], cached)
    while True:
        token = choose(logits, history)
        yield token
        if len(history) >= stepper.limits.context:
            return
        history.append(token)
        logits = stepper.prefill((token,), len(history) - 1)


def generate(
    stepper: Stepper,
    prompt: Sequence[int],
    request: GenerationRequest,
    decode: Decode,
    *,
    show: Show | None = None,
    memory: Memory = NO_MEMORY,
    speculate: Speculator | None = None,
) -> Generation:
    """Generate text after ``prompt``, calling ``show`` with each piece of it; for the rest see `pieces`."""
    steps = pieces(stepper, prompt, request, decode, memory=memory, speculate=speculate)
    while True:
        try:
            piece = next(steps)
        except StopIteration as end:
            result: Generation = end.value
            return result
        if show is not None:
            show(piece)


def pieces(
    stepper: Stepper,
    prompt: Sequence[int],
    request: GenerationRequest,
    decode: Decode,
    *,
    memory: Memory = NO_MEMORY,
    speculate: Speculator | None = None,
) -> Generator[str, None, Generation]:
    """Generate text after ``prompt`` piece by piece; a piece is computed when it is asked for.

    Args:
        stepper: the model.
        prompt: token ids, at least one.
        request: how long, how chosen, where to stop.
        decode: token ids to text.
        memory: what may be reused; recalling is part of the time to the first token. By default nothing is.
        speculate: drafts tokens ahead; the text is the same as without.

    Yields:
        Text as it becomes certain, never empty.

    Returns:
        The whole text with its timings.

    Raises:
        InputError: E150 when the prompt does not fit, E151 when it is empty; nothing has changed then.
    """
    check_context(len(prompt), stepper.limits.context)
    fresh: list[str] = []
    text = _Text(TextStream(decode, prompt), StopText(request.stop), fresh.append)
    tokens: list[int] = []
    times = [perf_counter()]
    rule = rule_of(request, len(prompt), stepper.limits.context)
    cached = memory.recall(prompt)
    reason = "context"
    for token in _chosen(stepper, prompt, request, rule, cached, speculate):
        times.append(perf_counter())
        if not tokens:
            memory.keep()
        tokens.append(token)
        if finished := _finished(token, len(tokens), request, text, rule):
            reason = finished
            break
        yield from _drained(fresh)
    text.close()
    yield from _drained(fresh)
    if rule is not None and reason != "eos" and rule.fulfilled(len(tokens)):
        reason = "complete"
    gaps = tuple((b - a) * 1e3 for a, b in pairwise(times))
    counts = speculate.counts if speculate else None
    ttft_ms, token_ms = gaps[0], gaps[1:]
    value = _value(request, text.shown, reason)
    return Generation(
        text.shown, tuple(tokens), len(prompt), cached, reason, ttft_ms, token_ms, speculation=counts, value=value
    )


def _value(request: GenerationRequest, text: str, reason: str) -> Any:
    """What a structured text says, where it is whole; None for free text."""
    if request.structure is None or reason not in ("eos", "complete"):
        return None
    return request.structure.value(text)


def rule_of(request: GenerationRequest, prompt_tokens: int, context: int) -> TokenRule | None:
    """The rule of the text that a request asks for, with as many tokens as it may have; None for free text."""
    room = context + 1 - prompt_tokens
    most = room if request.max_new_tokens is None else min(room, request.max_new_tokens)
    return request.structure.begin(most) if request.structure is not None else None


def _drained(fresh: list[str]) -> Iterator[str]:
    while fresh:
        yield fresh.pop(0)


def _chosen(
    stepper: Stepper,
    prompt: Sequence[int],
    request: GenerationRequest,
    rule: TokenRule | None,
    cached: int,
    speculate: Speculator | None,
) -> Iterator[int]:
    if speculate is None:
        return stream_tokens(stepper, prompt, Sampler(request.sampling, rule), cached)
    return speculate.tokens(stepper, prompt, request.sampling, request.max_new_tokens, cached, rule)


def _finished(token: int, count: int, request: GenerationRequest, text: _Text, rule: TokenRule | None) -> str:
    """The reason to stop after ``token``, or an empty string."""
    if token in request.eos:
        return "eos"
    text.push(token)
    if text.stopped:
        return "stop"
    if rule is not None and rule.ended(count):
        return "complete"
    return "length" if count == request.max_new_tokens else ""


class _Text:
    """The chain of detokeniser, stop filter and reader."""

    def __init__(self, stream: TextStream, stop: StopText, show: Show) -> None:
        self._stream, self._stop, self._show = stream, stop, show
        self.shown = ""

    @property
    def stopped(self) -> bool:
        return self._stop.hit is not None

    def push(self, token: int) -> None:
        self._emit(self._stop.feed(self._stream.push(token)))

    def close(self) -> None:
        if not self.stopped:
            self._emit(self._stop.feed(self._stream.flush()))
        if not self.stopped:
            self._emit(self._stop.flush())

    def _emit(self, piece: str) -> None:
        if piece:
            self.shown += piece
            self._show(piece)
