"""The decoding loop: prefill, choose, show, feed back, and stop for one of four reasons."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Integral
from time import perf_counter
from typing import Any, Protocol, TypeVar

from edgec.errors import InputError
from edgec.runtime_py.decoding.prompt_cache import EMPTY, PromptCache
from edgec.runtime_py.decoding.readers import PlainTextReader, Reader
from edgec.runtime_py.decoding.sampling import Sampler, Sampling, Watch
from edgec.runtime_py.decoding.stepper import Stepper, check_context
from edgec.runtime_py.decoding.stopping import StopText
from edgec.runtime_py.decoding.text_stream import TextStream
from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.speculation.speculator import SpeculationCounts, Speculator
from edgec.runtime_py.structured.refusals import contradiction
from edgec.runtime_py.structured.rule import Structure, TokenRule

Decode = Callable[[list[int]], str]
Show = Callable[[Any], None]
PieceT = TypeVar("PieceT")
ResultT = TypeVar("ResultT")


class ReplyParser(Protocol):
    """How a text is held and read, where it is more than text: a message with reasoning and calls of tools."""

    def rule(self, request: GenerationRequest, tokens: int) -> TokenRule | None:
        """The rule of a text of at most ``tokens``; None for free text."""

    def reader(self, prompt: Sequence[int], request: GenerationRequest) -> Reader:
        """The reader of a text after ``prompt``."""

    def read_fields(self, reader: Reader) -> dict[str, Any]:
        """The fields of `Generation` that the reader found beside the text."""


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
        reasoning: what a message says before its answer, where its chat template tells the two apart.
        tool_calls: the calls of tools in a message.
        stopped_by: the stop string that ended the text, which does not belong to it.
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
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    stopped_by: str | None = None

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
    prompt_cache: PromptCache = EMPTY,
    speculate: Speculator | None = None,
    parser: ReplyParser | None = None,
) -> Generation:
    """Generate text after ``prompt``, calling ``show`` with each piece of it; for the rest see `pieces`."""
    made = pieces(stepper, prompt, request, decode, prompt_cache=prompt_cache, speculate=speculate, parser=parser)
    return exhausted(made, show or (lambda _: None))


def exhausted(made: Generator[PieceT, None, ResultT], show: Callable[[PieceT], object]) -> ResultT:
    """What a generator returns, after each of its pieces was shown."""
    while True:
        try:
            piece = next(made)
        except StopIteration as end:
            result: ResultT = end.value
            return result
        show(piece)


def pieces(
    stepper: Stepper,
    prompt: Sequence[int],
    request: GenerationRequest,
    decode: Decode,
    *,
    prompt_cache: PromptCache = EMPTY,
    speculate: Speculator | None = None,
    parser: ReplyParser | None = None,
    watch: Watch | None = None,
) -> Generator[Any, None, Generation]:
    """Generate text after ``prompt`` piece by piece; a piece is computed when it is asked for.

    Args:
        stepper: the model.
        prompt: token ids, at least one.
        request: how long, how chosen, where to stop.
        decode: token ids to text.
        prompt_cache: what may be reused; recalling is part of the time to the first token. By default nothing is.
        speculate: drafts tokens ahead; the text is the same as without.
        parser: how the text is held and read; by default as text.
        watch: called with logits [vocabulary] and the token chosen from them; nothing is drafted then.

    Yields:
        Text as it becomes certain, never empty; of another parser, its reader's pieces.

    Returns:
        The whole text with its timings.

    Raises:
        InputError: E150 when the prompt does not fit, E151 when it is empty; nothing has changed then.
    """
    check_context(len(prompt), stepper.limits.context)
    text = (
        parser.reader(prompt, request)
        if parser
        else PlainTextReader(TextStream(decode, prompt), StopText(request.stop))
    )
    tokens: list[int] = []
    times = [perf_counter()]
    rule = rule_of(request, len(prompt), stepper.limits.context, parser)
    cached = prompt_cache.recall(prompt)
    reason = "context"
    for token in _chosen(stepper, prompt, request, rule, cached, None if watch else speculate, watch):
        times.append(perf_counter())
        if not tokens:
            prompt_cache.keep()
        tokens.append(token)
        if finished := _finished(token, len(tokens), request, text, rule):
            reason = finished
            break
        yield from text.drain()
    text.close()
    yield from text.drain()
    if rule is not None and reason != "eos" and rule.is_whole(len(tokens)):
        reason = "complete"
    gaps = tuple((b - a) * 1e3 for a, b in pairwise(times))
    counts = speculate.counts if speculate and not watch else None
    made = Generation(text.shown, tuple(tokens), len(prompt), cached, reason, gaps[0], gaps[1:], speculation=counts)
    more = parser.read_fields(text) if parser else {}
    return replace(made, value=_value(request, text.shown, reason), stopped_by=text.stopped_by, **more)


def _value(request: GenerationRequest, text: str, reason: str) -> Any:
    """What a structured text says, where it is whole; None for free text."""
    if request.structure is None or reason not in ("eos", "complete"):
        return None
    return request.structure.value(text)


def rule_of(
    request: GenerationRequest, prompt_tokens: int, context: int, parser: ReplyParser | None = None
) -> TokenRule | None:
    """The rule of the text that a request asks for, with as many tokens as it may have; None for free text."""
    room = context + 1 - prompt_tokens
    most = room if request.max_new_tokens is None else min(room, request.max_new_tokens)
    if parser is not None:
        return parser.rule(request, most)
    return request.structure.begin(most) if request.structure is not None else None


def _chosen(
    stepper: Stepper,
    prompt: Sequence[int],
    request: GenerationRequest,
    rule: TokenRule | None,
    cached: int,
    speculate: Speculator | None,
    watch: Watch | None,
) -> Iterator[int]:
    if speculate is None:
        return stream_tokens(stepper, prompt, Sampler(request.sampling, rule, watch), cached)
    return speculate.tokens(stepper, prompt, request.sampling, request.max_new_tokens, cached, rule)


def _finished(token: int, count: int, request: GenerationRequest, text: Reader, rule: TokenRule | None) -> str:
    """The reason to stop after ``token``, or an empty string."""
    if token in request.eos:
        return "eos"
    text.push(token)
    if text.stopped:
        return "stop"
    if rule is not None and rule.ended(count):
        return "complete"
    return "length" if count == request.max_new_tokens else ""
