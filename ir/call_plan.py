"""Plan the calls that feed a sequence to an artifact, as a phone would: whole chunks, then single tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Tensor

from edgec.ir.program import Interface

Tokens = Sequence[int]
# Single tokens that every plan ends with: what a call leaves behind shows in the calls after it.
_LAST_SINGLE = 4


@dataclass(frozen=True)
class Call:
    """One call of a cached method: tokens ``start .. start + size - 1``, logits of the last ``rows`` of them."""

    start: int
    size: int
    rows: int


def call_plan(length: int, chunk: int, rows: int) -> tuple[Call, ...]:
    """Cover ``length`` tokens with every shape a caller may use, and end with single tokens.

    A whole chunk, a part of one, single tokens and calls of ``rows`` follow each other, again and again. Where a chunk
    would leave too few tokens for that, the first call takes half of them, and the longest call that fits comes last,
    from the start of the sequence.
    """
    room = max(1, length - min(_LAST_SINGLE, length - 1))
    largest = chunk if chunk + 2 * rows < room else max(1, min(chunk, length // 2))
    calls: list[Call] = []
    for size in _sizes(room, (largest, max(1, largest // 3), 1, 1, 1, rows, rows), length):
        start = calls[-1].start + calls[-1].size if calls else 0
        calls.append(Call(start, size, min(size, rows)))
    again = min(chunk, length)
    return (*calls, Call(0, again, min(again, rows))) if largest < again else tuple(calls)


def _sizes(room: int, pattern: Sequence[int], length: int) -> Iterator[int]:
    """Sizes of calls: the pattern over and over until ``room`` tokens are covered, then single tokens."""
    left = room
    for size in cycle(pattern):
        if left <= 0:
            break
        yield min(size, left)
        left -= size
    yield from [1] * (length - room)


def compared_positions(plan: Sequence[Call]) -> list[int]:
    """Positions whose logits a plan yields, in order."""
    return [p for call in plan for p in range(call.start + call.size - call.rows, call.start + call.size)]


def last_rows(call: Call) -> Tensor:
    """The rows of a call whose logits are wanted, int64 [K]."""
    return torch.arange(call.size - call.rows, call.size)


def call_inputs(
    interface: Interface, tokens: Tokens, start: int, size: int, rows: Tensor, given: Mapping[str, Tensor] | None = None
) -> list[Tensor]:
    """A graph's inputs for the tokens ``start .. start + size - 1``, in the interface's order.

    ``given``: inputs that are the same in every call, by name.
    """
    values = {
        **(given or {}),
        "tokens": torch.tensor([list(tokens[start : start + size])], dtype=torch.int64),
        "positions": torch.arange(start, start + size),
        "logit_index": rows,
    }
    return [values[tensor.name] for tensor in interface.inputs]


# Eighths of the last chunk that are tokens: the rest is padding that later tokens must overwrite.
_LAST_CHUNK, _DECODED = 5, 32
# The fewest single tokens of a plan.
_SINGLE = 8


def static_plan(length: int, chunk: int, beyond: int = 0) -> tuple[Call, ...]:
    """Whole chunks, two or as many as ``beyond`` tokens take, one that is not full, and at most 32 single tokens.

    Where there is no room for a whole chunk before the others, it comes last, from the start of the sequence. Two
    tokens are enough for a chunk: its padding has a place in states of whole chunks, and at their end tokens go singly.
    """
    full = max(0, min((length - _SINGLE) // chunk - 1, max(2, -(-beyond // chunk))))
    left = min(chunk * _LAST_CHUNK // 8, length - full * chunk - _SINGLE)
    chunks = [chunk] * full + [max(2, left)] if min(chunk, length) > 1 else []
    single = max(_DECODED, beyond + _SINGLE - sum(chunks))
    sizes = [*chunks, *[1] * min(single, length - sum(chunks))]
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    calls = tuple(Call(start, size, 1) for start, size in zip(starts, sizes, strict=True))
    again = min(chunk, length)
    return calls if full or again == calls[0].size else (*calls, Call(0, again, 1))


DecoderStep = Callable[[Tensor, Tensor, Tensor], Tensor]


def feed(step: DecoderStep, tokens: Tokens, plan: Sequence[Call]) -> Tensor:
    """Teacher-forced logits, float32 [P, V], of the plan's compared positions."""
    collected = []
    for call in plan:
        ids = torch.tensor([list(tokens[call.start : call.start + call.size])], dtype=torch.int64)
        positions = torch.arange(call.start, call.start + call.size)
        collected.append(step(ids, positions, last_rows(call))[0].float().clone())
    return torch.cat(collected)
