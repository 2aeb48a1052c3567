"""Where a token's keys and values lie in a cache, and which slots a query may see: plain arithmetic, tested alone.

``full``: slot = position. ``ring``: the first ``sink`` slots keep the first ``sink`` positions forever, the other
``slots - sink`` are overwritten in turn. After writing up to position ``last``, ring slot j holds the newest position
p <= last with (p - sink) mod ring = j - sink.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from edgec.ir.attention import within

# Finite, so that a block of wholly masked keys cannot turn an online softmax into NaN.
MASKED = {torch.float32: -1e9, torch.float16: -40000.0}


@dataclass(frozen=True)
class CacheLayout:
    """A cache's geometry; ``window`` None means all earlier tokens, ``chunked`` those of a chunk so long."""

    kind: str
    slots: int
    window: int | None = None
    sink: int = 0
    chunked: bool = False

    @property
    def ring(self) -> int:
        """Slots that are overwritten in turn."""
        return self.slots - self.sink

    @property
    def masked(self) -> bool:
        """Whether attention needs a mask: causal order alone does not say what is visible."""
        return self.kind == "ring" or self.window is not None


def layout(window: int | None, context: int, chunk: int, sink: int, rings: bool = True) -> CacheLayout:
    """The smallest exact cache: a window of w and chunks of c tokens need a ring of w - 1 + c slots.

    The first query of a chunk still needs the w - 1 tokens before it after the chunk's last token was written; the
    same slack allows undoing c - 1 tokens. A ``window`` below 0 is a chunk of attention, as in ``ir/attention.py``.
    """
    if window is None or abs(window) >= context:
        return CacheLayout("full", context)
    width, chunked = abs(window), window < 0
    slots = width - 1 + chunk + sink
    turns = rings and slots < context
    return CacheLayout("ring" if turns else "full", slots if turns else context, width, sink, chunked)


def write_slots(where: CacheLayout, positions: Tensor) -> Tensor:
    """Slots [S] for query positions [S] (int64)."""
    if where.kind == "full":
        return positions
    turning = where.sink + (positions - where.sink) % where.ring
    return torch.where(positions < where.sink, positions, turning)


def slot_positions(where: CacheLayout, last: Tensor) -> Tensor:
    """The position [T] that each slot holds once ``last`` (int64, scalar) was written; negative when still empty."""
    slot = torch.arange(where.slots)
    if where.kind == "full":
        return slot
    newest = last - where.sink
    turning = newest - (newest - (slot - where.sink)) % where.ring
    # An unfilled ring slot must not pass for a sink position.
    turning = torch.where(turning < 0, -1, turning + where.sink)
    return torch.where(slot < where.sink, slot, turning)


def additive_mask(where: CacheLayout, positions: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to scores: [S, T], 0 where visible, a large negative number elsewhere."""
    held = slot_positions(where, positions[-1])
    distance = positions[:, None] - held[None, :]
    seen = (distance >= 0) & (held >= 0)
    if where.window is not None:
        near = within(positions[:, None], held[None, :], -where.window if where.chunked else where.window)
        seen = seen & ((near | (held < where.sink)) if where.sink else near)
    zero = torch.zeros((), dtype=dtype)
    return torch.where(seen, zero, torch.full((), MASKED[dtype], dtype=dtype))


def emit(graph: Graph, function: GraphModule, *inputs: Node) -> Node:
    """Copy a traced function's nodes into ``graph`` at the insertion point; returns its output."""
    mapping: dict[Node, Node] = {}
    sources = iter(inputs)
    for node in function.graph.nodes:
        if node.op == "placeholder":
            mapping[node] = next(sources)
        elif node.op == "output":
            (result,) = node.all_input_nodes
        else:
            mapping[node] = graph.node_copy(node, lambda n: mapping[n])
    return mapping[result]
