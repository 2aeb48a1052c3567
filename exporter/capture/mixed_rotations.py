"""Refuse decoders whose rotations at a position follow from other positions of the call.

    positions 0 1 .. 21 22       -> sines and cosines of 0 .. 21
    positions 0 1 .. 21 last     -> the same graph: the same sines and cosines, or keys that are kept are wrong later

LongRoPE and dynamic NTK do that unless they are held (``sources/stored_rotations.py``), and so may rotary code that
comes with a model. The text of the parity ladder is shorter than most contexts: only positions and constants are
computed here, up to the last position of the context. Costs four tables of 23 rows.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.row_inputs import MROPE
from edgec.passes.graph.functional import memory_of
from edgec.passes.static.parts.position_values import computed, frontier, positional

# Primes, so that few other dimensions of a model are as long.
_LENGTHS = (23, 19, 17, 13, 11, 7, 5, 3)
# Angles are products of one position with one frequency, in the same order in every call.
_TOLERANCE = 1e-5


def refuse_mixed_rotations(graph: GraphModule, max_tokens: int, where: str) -> None:
    """Refuse a graph in which the sines and cosines of one position change with another position.

    Args:
        graph: a captured decoder whose constants are bound.
        max_tokens: the context.
        where: the model's class.

    Raises:
        InputError: E743.
    """
    size = next((size for size in _LENGTHS if size <= max_tokens), 0)
    first = torch.arange(size)
    last = first + max_tokens - size
    # The largest position moves away from the others; the smallest does.
    pairs = [(first, _with(first, -1, max_tokens - 1), -1), (last, _with(last, 0, 0), 0)] if size else []
    for name in ("positions", MROPE):
        for given in (node for node in graph.graph.nodes if node.op == "placeholder" and node.target == name):
            values = positional(graph, given)
            if node := next((node for node in graph.graph.nodes if node in values and _writes(node)), None):
                raise _refused(where, node)
            for node in frontier(graph, values):
                if any(_moves(graph, node, given, *pair) for pair in pairs):
                    raise _refused(where, node)


def _writes(node: Node) -> bool:
    """Whether a value of positions is written over a constant, as renewed frequencies are."""
    if not isinstance(node.target, OpOverload) or not node.target._schema.is_mutable:
        return False
    written: object = node.args[0]
    return isinstance(written, Node) and memory_of(written).op == "get_attr"


def _with(positions: Tensor, index: int, value: int) -> Tensor:
    changed = positions.clone()
    changed[index] = value
    return changed


def _moves(graph: GraphModule, node: Node, given: Node, one: Tensor, other: Tensor, changed: int) -> bool:
    """Whether a value's rows move with one position that is not theirs; a value for each pair of tokens has no rows."""
    parts = (given.meta["val"].shape[0], -1) if given.meta["val"].dim() > 1 else (-1,)
    values = [computed(graph, node, {given: each.expand(*parts)}) for each in (one, other)]
    rows = [dim for dim, size in enumerate(values[0].shape) if size == len(one)]
    if len(rows) != 1 or not values[0].is_floating_point():
        return False
    kept = torch.arange(len(one)) != changed % len(one)
    before, after = (value.transpose(0, rows[0])[kept] for value in values)
    return not torch.allclose(before, after, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)


def _refused(where: str, node: Node) -> InputError:
    return InputError(
        what="this model rotates a token by other angles when a later token has come",
        where=where,
        why=f"{node.name} of one position follows from other positions of the call, and keys that are kept do not turn",
        fix="use a version of the model whose rotary code is transformers' own; as a module without a cache it can be "
        "exported (--task feature-extraction)",
        code="E743",
    )
