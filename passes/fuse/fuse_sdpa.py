"""Rewrite torch's attention into edgec's one attention operator, so that every pass on attention sees one node type.

    q, k, v -> scaled_dot_product_attention(mask?, is_causal, scale, enable_gqa) -> [B,H,S,Dv] -> transpose(1,2)
    ==>
    q, k, v, arange(S), where(mask, 0, min)? -> edgec::attention -> [B,S,H,Dv]

Legality: four-dimensional q, k, v of one batch size with H a multiple of G, no dropout, and equal lengths where
``is_causal`` is set. Any other call stays as it is. A boolean mask becomes an additive one with the lowest finite
float (as in transformers' eager attention), so each query must see at least one key. A mask that depends on no input
and hides nothing is dropped. Measured on a ViT of 2 layers: 100 nodes before, 91 after, its constant mask gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from edgec.ir.attention import OPERATOR
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
SDPA = aten.scaled_dot_product_attention.default
_RESHAPES = (aten.reshape.default, aten.view.default, aten.alias.default)
_LARGEST_CONSTANT_MASK = 1 << 24


@dataclass(frozen=True)
class _Call:
    """The arguments of one scaled_dot_product_attention node."""

    query: Node
    key: Node
    value: Node
    mask: Node | None
    dropout: float
    causal: bool
    scale: float


@dataclass(frozen=True)
class FuseSdpa:
    """Rewrite ``aten.scaled_dot_product_attention`` to ``edgec::attention``; exact."""

    name: str = "fuse_sdpa"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: illegal nodes are left alone."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite every legal node."""
        first = len(nodes_of(graph, OPERATOR))
        legal = [node for node in nodes_of(graph, SDPA) if is_legal(_call(node))]
        masks: dict[Node, Node | None] = {}
        for layer, node in enumerate(legal, start=first):
            _rewrite(graph, node, layer, masks)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No node that could be rewritten is left."""
        assert not [node for node in nodes_of(program.graph, SDPA) if is_legal(_call(node))]


def is_legal(call: _Call) -> bool:
    """Whether ``edgec::attention`` means the same as this call."""
    q, k, v = (node.meta["val"] for node in (call.query, call.key, call.value))
    if call.dropout or not q.dim() == k.dim() == v.dim() == 4:
        return False
    heads = q.shape[1] % k.shape[1] == 0 and k.shape[1] == v.shape[1]
    batch = q.shape[0] == k.shape[0] == v.shape[0]
    return bool(heads and batch and (not call.causal or q.shape[2] == k.shape[2]))


def _call(node: Node) -> _Call:
    arguments: tuple[Any, ...] = (*node.args, *(None,) * 3)
    query, key, value, mask, dropout, causal = arguments[:6]
    given: dict[str, Any] = {"attn_mask": mask, "dropout_p": dropout, "is_causal": causal, **node.kwargs}
    scale = given.get("scale")
    width = query.meta["val"].shape[-1]
    return _Call(
        query=query,
        key=key,
        value=value,
        mask=given["attn_mask"],
        dropout=float(given["dropout_p"] or 0.0),
        causal=bool(given["is_causal"]),
        scale=float(width**-0.5 if scale is None else scale),
    )


def _rewrite(graph: GraphModule, node: Node, layer: int, masks: dict[Node, Node | None]) -> None:
    call = _call(node)
    emit = Emitter(graph.graph)
    with graph.graph.inserting_before(node):
        if call.mask is not None and call.mask not in masks:
            masks[call.mask] = _additive(graph, emit, call.mask, call.query)
        mask = None if call.mask is None else masks[call.mask]
        # A real tensor of as many values as a varying size would fix that size.
        with call.query.meta["val"].fake_mode:
            positions = emit(aten.arange.default, emit.size(call.query, 2))
        args = (call.query, call.key, call.value, positions, mask, layer, call.scale, call.causal, 0, 0.0, None)
        fused = emit(OPERATOR, *args)
        swapped = emit(aten.transpose.int, fused, 1, 2)
    _bypass_transposes(node, fused)
    node.replace_all_uses_with(swapped)
    graph.graph.erase_node(node)


def _bypass_transposes(node: Node, fused: Node) -> None:
    """Let users that swap heads and tokens back read the operator's own layout."""
    for user in list(node.users):
        if user.target in _RESHAPES and tuple(user.meta["val"].shape) == tuple(node.meta["val"].shape):
            _bypass_transposes(user, fused)
        elif user.target is aten.transpose.int and {dim % 4 for dim in user.args[1:]} == {1, 2}:  # type: ignore[operator]
            user.replace_all_uses_with(fused)


def _additive(graph: GraphModule, emit: Emitter, mask: Node, query: Node) -> Node | None:
    """The mask as numbers added to the scores, or None when it hides nothing; shared by the layers that read it."""
    if mask.meta["val"].dtype is not torch.bool:
        return mask
    known = constant_value(graph, mask)
    if known is not None and bool(known.all()):
        return None
    dtype = query.meta["val"].dtype
    shown = emit(aten.scalar_tensor.default, 0.0, dtype=dtype)
    hidden = emit(aten.scalar_tensor.default, torch.finfo(dtype).min, dtype=dtype)
    return emit(aten.where.self, mask, shown, hidden)


def constant_value(graph: GraphModule, node: Node) -> Tensor | None:
    """The value of a node, or None when it depends on an input or is large."""
    needed: set[Node] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current.op == "placeholder" or not _is_small(current):
            return None
        if current not in needed:
            needed.add(current)
            waiting.extend(current.all_input_nodes)
    interpreter = Interpreter(graph)
    for current in (candidate for candidate in graph.graph.nodes if candidate in needed):
        interpreter.env[current] = interpreter.run_node(current)
    value = interpreter.env[node]
    return value if isinstance(value, Tensor) else None


def _is_small(node: Node) -> bool:
    value = node.meta.get("val")
    return not isinstance(value, Tensor) or (
        all(isinstance(size, int) for size in value.shape) and value.numel() <= _LARGEST_CONSTANT_MASK
    )
