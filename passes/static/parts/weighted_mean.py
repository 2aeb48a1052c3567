"""The mean of all values so far, weighted by exponentials of keys (``wkv``), for all tokens of a call at once.

Each token, and the state before them, is a triple n, d, m that stands for n exp(m) and d exp(m). Two neighbouring
stretches of tokens, the later one L tokens long, join to

    m = max(m1 + L decay, m2) ;  n = exp(m1 + L decay - m) n1 + exp(m2 - m) n2 ;  d alike

and stretches of 1, 2, 4, ... tokens join to all beginnings of the call in log2(S) steps. An empty state has the
exponent ``HIDDEN``, next to which every key's share is whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.fx import Node

from edgec.passes.graph.emit import Emitter
from edgec.passes.static.finite_mask import HIDDEN
from edgec.passes.static.parts.chunk import Chunk
from edgec.passes.static.parts.matrix_states import Results

aten = torch.ops.aten


@dataclass(frozen=True)
class WkvCall:
    """The arguments of ``edgec::cached_wkv``, by the operator's own names."""

    k: Node
    v: Node
    decay: Node
    first: Node
    positions: Node
    state: Node
    log: Node
    seen: Node


@dataclass(frozen=True)
class _Stretch:
    """Weighted sums of stretches of tokens: numerator, denominator and exponent [1, R, W]."""

    numerator: Node
    denominator: Node
    exponent: Node

    def each(self, change: Callable[[Node], Node]) -> _Stretch:
        """The stretch with every part changed alike."""
        return _Stretch(*map(change, (self.numerator, self.denominator, self.exponent)))


def weighted_mean(emit: Emitter, chunk: Chunk, call: WkvCall, state: Node) -> Results:
    """``cached_wkv`` from a state [1, 3, W]: out [1, S, W], and the state after it; padding comes last and is cut."""
    ones = emit(aten.ones_like.default, call.v)
    tokens = _Stretch(call.v, ones, call.k)
    begun = _begun(emit, chunk, state)
    parts = zip(_parts(begun), _parts(tokens), strict=True)
    rows = _Stretch(*(emit(aten.cat.default, list(pair), 1) for pair in parts))
    distance = 1
    while distance <= chunk.tokens:
        rows = _joined_rows(emit, chunk, rows, call.decay, distance)
        distance *= 2
    before = rows.each(lambda part: emit(aten.slice.Tensor, part, 1, 0, chunk.tokens))
    now = _Stretch(call.v, ones, emit(aten.add.Tensor, call.k, call.first))
    mean = _joined(emit, before, now)
    out = emit(aten.div.Tensor, mean.numerator, mean.denominator)
    return out, emit(aten.cat.default, [_after(emit, chunk, part) for part in _parts(rows)], 1)


def _begun(emit: Emitter, chunk: Chunk, state: Node) -> _Stretch:
    """The state's parts [1, 1, W]; of a sequence that begins, the exponent of no token at all."""
    numerator, denominator, exponent = (emit(aten.slice.Tensor, state, 1, part, part + 1) for part in range(3))
    absent = emit(aten.mul.Tensor, emit(aten.sub.Tensor, chunk.continues(emit), 1.0), -HIDDEN)
    return _Stretch(numerator, denominator, emit(aten.add.Tensor, exponent, absent))


def _joined_rows(emit: Emitter, chunk: Chunk, rows: _Stretch, decay: Node, distance: int) -> _Stretch:
    """Join each stretch of ``distance`` tokens with the one before it; the first rows are whole already."""
    count = chunk.tokens + 1
    later = rows.each(lambda part: emit(aten.slice.Tensor, part, 1, distance, count))
    earlier = rows.each(lambda part: emit(aten.slice.Tensor, part, 1, 0, count - distance))
    faded = emit(aten.add.Tensor, earlier.exponent, emit(aten.mul.Tensor, decay, float(distance)))
    joined = _joined(emit, _Stretch(earlier.numerator, earlier.denominator, faded), later)
    first = rows.each(lambda part: emit(aten.slice.Tensor, part, 1, 0, distance))
    pairs = zip(_parts(first), _parts(joined), strict=True)
    return _Stretch(*(emit(aten.cat.default, list(pair), 1) for pair in pairs))


def _joined(emit: Emitter, earlier: _Stretch, later: _Stretch) -> _Stretch:
    highest = emit(aten.maximum.default, earlier.exponent, later.exponent)
    past, now = (emit(aten.exp.default, emit(aten.sub.Tensor, each.exponent, highest)) for each in (earlier, later))
    numerator, denominator = (
        emit(aten.add.Tensor, emit(aten.mul.Tensor, past, old), emit(aten.mul.Tensor, now, new))
        for old, new in ((earlier.numerator, later.numerator), (earlier.denominator, later.denominator))
    )
    return _Stretch(numerator, denominator, highest)


def _parts(stretch: _Stretch) -> tuple[Node, Node, Node]:
    return stretch.numerator, stretch.denominator, stretch.exponent


def _after(emit: Emitter, chunk: Chunk, part: Node) -> Node:
    """The row after the last token that is not padding."""
    if chunk.tokens == 1:
        return emit(aten.slice.Tensor, part, 1, 1, 2)
    return emit(aten.index_select.default, part, 1, chunk.tail(emit, 1, 1))
