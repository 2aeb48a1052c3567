"""Attention that a family writes out itself, as ``edgec::attention``.

    softmax(where(M, q @ k^T * scale, -inf)) @ v        or        scaled_dot_product_attention(q, k, v, is_causal=True)
        ==>
    edgec::attention(q, k, v, positions, causal, window)

Model code gets no mask during capture, where a mask would only say that attention is causal (``attention.register``):
scores without one are causal by positions, and M is a stored triangle, perhaps with a window. Whether that is what the
family means is measured: the parity ladder compares the captured graph with transformers' own model. Products may be
of three dimensions, ``baddbmm`` and ``bmm`` over all heads; linear biases become channels (``key_bias.py``). The
triangle may be a factor, ``scores * M - 1e4 * (1 - M)``. Scores with anything else added (relative positions) are left
as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.exporter.capture.key_bias import slopes_of, value_for, with_positions
from edgec.ir.attention import OPERATOR, visible
from edgec.ir.attributes import attribute
from edgec.passes.contract import nodes_of, placeholder
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_SAME = (aten.to.dtype, aten.to.dtype_layout, aten.dropout.default, aten.alias.default, aten.contiguous.default)
_SCALED = {aten.mul.Tensor: 1, aten.mul.Scalar: 1, aten.mul_.Tensor: 1, aten.div.Tensor: -1, aten.div_.Tensor: -1}
_VIEWS = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)
_ADDED = (aten.add.Tensor, aten.add_.Tensor)
_PRODUCTS = (aten.matmul.default, aten.bmm.default, aten.baddbmm.default)
_CUT = (aten.slice.Tensor, aten.to.dtype, aten.to.device, aten.alias.default, aten.expand.default)

# What is added to a score that shall not count, a bound below every score, and how many tokens masks are looked at for.
_HIDDEN, _LOWEST, _TOKENS = -1e4, -1e30, 7


@dataclass(frozen=True)
class _Scores:
    """What a softmax is taken of: ``q @ k^T * scale``, of keys that a window leaves, with a linear bias [H] by key."""

    q: Node
    k: Node
    scale: float = 1.0
    window: int = 0
    slopes: Tensor | None = None


@contextmanager
def plain_flags() -> Iterator[None]:
    """Decide ``is_causal`` where model code computes it from the number of tokens, which is at least 2 in capture."""
    usual = torch.nn.functional.scaled_dot_product_attention

    def decided(*args: Any, **kwargs: Any) -> Tensor:
        if "is_causal" in kwargs:
            kwargs["is_causal"] = bool(kwargs["is_causal"])
        return usual(*args, **kwargs)

    torch.nn.functional.scaled_dot_product_attention = decided
    try:
        yield
    finally:
        torch.nn.functional.scaled_dot_product_attention = usual


def use_operator(graph: GraphModule) -> None:
    """Replace written-out attention by the operator, in a graph where no layer calls the operator itself."""
    if nodes_of(graph, OPERATOR):
        return
    layer = 0
    for node in list(graph.graph.nodes):
        attention = _sdpa(node) or _softmax(graph, node)
        if attention is not None:
            _replace(graph, *attention, layer)
            layer += 1
    if layer:
        graph.graph.eliminate_dead_code()
        graph.recompile()


def _replace(graph: GraphModule, scores: _Scores, v: Node, old: Node, layer: int) -> None:
    positions, value = placeholder(graph, "positions"), old.meta["val"]
    constants = (None, layer, scores.scale, True, scores.window, 0.0, None)
    with graph.graph.inserting_before(old):
        emit, q, k = Emitter(graph.graph), scores.q, scores.k
        if scores.slopes is not None and scores.slopes.any():
            q, k = with_positions(graph, q, k, scores.slopes, scores.scale)
        made = emit(OPERATOR, q, k, v, positions, *constants)
        turned = emit(aten.transpose.int, made, 1, 2)
        turned = emit(aten.flatten.using_ints, turned, 0, 1) if value.dim() == 3 else turned
    made.meta = {**old.meta, "val": made.meta["val"]}
    turned.meta = {**old.meta, "val": turned.meta["val"]}
    old.replace_all_uses_with(turned)
    graph.graph.erase_node(old)


def _sdpa(node: Node) -> tuple[_Scores, Node, Node] | None:
    if node.target is not aten.scaled_dot_product_attention.default:
        return None
    names = ("q", "k", "v", "attn_mask", "dropout_p", "is_causal")
    given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    q, k, v = (given[name] for name in "qkv")
    if given.get("attn_mask") is not None or not given.get("is_causal") or not _four(q, k, v):
        return None
    scale = given.get("scale")
    width = int(q.meta["val"].shape[-1])
    return _Scores(q, k, width**-0.5 if scale is None else float(scale)), v, node


def _softmax(graph: GraphModule, node: Node) -> tuple[_Scores, Node, Node] | None:
    if node.target is not aten.softmax.int or node.args[1] not in (-1, 3):
        return None
    product = _only_reader(node)
    if product is None or product.target not in _PRODUCTS[:2] or not _comes_from(product.args[0], node):
        return None
    scores, v = _scores(graph, node.args[0]), _by_head(product.args[1])
    if scores is None or not _four(scores.q, scores.k, v):
        return None
    return scores, v, product


def _four(*nodes: Any) -> bool:
    return all(isinstance(node, Node) and node.meta["val"].dim() == 4 for node in nodes)


def _only_reader(node: Node) -> Node | None:
    """The one node that reads a value, after casts and dropouts."""
    readers = [user for user in node.users if user.users]
    if len(readers) != 1:
        return None
    return _only_reader(readers[0]) if readers[0].target in (*_SAME, *_VIEWS) else readers[0]


def _comes_from(value: Any, source: Node) -> bool:
    while isinstance(value, Node) and value is not source and value.target in (*_SAME, *_VIEWS):
        value = value.args[0]
    return value is source


def _by_head(value: Any) -> Any:
    """A value [B, H, S, D] that was reshaped to [B H, S, D]; else the value."""
    merged = isinstance(value, Node) and value.target in _VIEWS and value.meta["val"].dim() == 3
    return value.args[0] if merged and _four(value.args[0]) else value


def _scores(graph: GraphModule, node: Any) -> _Scores | None:
    """Read scores from the softmax back to the product of queries and keys."""
    scale, window, slopes = 1.0, 0, None
    while isinstance(node, Node) and node.target not in _PRODUCTS:
        if node.target in _SCALED and (factor := _number(graph, node.args[1])) is not None:
            scale *= factor ** _SCALED[node.target]
        elif node.target is aten.where.self and (masked := _window(graph, node.args[0])) is not None:
            window = masked
        elif node.target in _ADDED and (bias := _bias(graph, node)) is not None:
            node, slopes = bias[0], _sum(slopes, bias[1] * scale)
            continue
        elif node.target in _ADDED and (kept := _kept(graph, node)) is not None:
            node, window = kept
            continue
        elif not (node.target in (*_SAME, *_VIEWS) or _changes_nothing(graph, node)):
            return None
        node = node.args[1 if node.target is aten.where.self else 0]
    return _product(graph, node, scale, window, slopes) if isinstance(node, Node) else None


def _product(graph: GraphModule, node: Node, scale: float, window: int, slopes: Tensor | None) -> _Scores | None:
    added = node.target is aten.baddbmm.default
    q, turned = node.args[1:3] if added else node.args[:2]
    if not (isinstance(turned, Node) and turned.target in (aten.transpose.int, aten.permute.default)):
        return None
    q, k = _by_head(q), _by_head(_turned_back(turned))
    if added:
        own = slopes_of(graph, node.args[0], q.meta["val"].shape[1])
        if own is None:
            return None
        slopes = _sum(slopes, own * float(node.kwargs.get("beta", 1)) * scale)  # type: ignore[arg-type]
        scale *= float(node.kwargs.get("alpha", 1))  # type: ignore[arg-type]
    return _Scores(q, k, scale, window, slopes)


def _turned_back(keys: Node) -> Node:
    """Keys [..., S, D] of keys [..., D, S]."""
    dims = keys.meta["val"].dim()
    if keys.target is aten.transpose.int and {int(d) % dims for d in keys.args[1:]} == {dims - 2, dims - 1}:  # type: ignore[arg-type]
        return keys.all_input_nodes[0]
    with keys.graph.inserting_after(keys):
        return Emitter(keys.graph)(aten.transpose.int, keys, -2, -1)


def _kept(graph: GraphModule, node: Node) -> tuple[Node, int] | None:
    """The scores and the window of ``scores * M + low``: a stored triangle M, and at most -1e4 added where M is 0."""
    for product, low in (node.args[:2], node.args[1::-1]):
        if not (isinstance(product, Node) and product.target in _SCALED):
            continue
        scores, factor = product.args[:2]
        window = _window(graph, factor)
        triangle, added = (value_for(graph, each, _TOKENS) for each in (factor, low))
        if window is None or triangle is None or added is None or not isinstance(scores, Node):
            continue
        if torch.equal(added == 0, triangle == 1) and torch.equal(added <= _HIDDEN, triangle == 0):
            return scores, window
    return None


def _bias(graph: GraphModule, node: Node) -> tuple[Node, Tensor] | None:
    """The scores of a sum and the linear bias that is added to them."""
    heads = int(node.meta["val"].shape[1])
    for scores, bias in (node.args[:2], node.args[1::-1]):
        slopes = slopes_of(graph, bias, heads) if isinstance(bias, Node) else None
        if slopes is not None and isinstance(scores, Node):
            return scores, slopes
    return None


def _sum(first: Tensor | None, second: Tensor) -> Tensor:
    return second if first is None else first + second


def _changes_nothing(graph: GraphModule, node: Node) -> bool:
    """Whether scores stay as they are: masks say no more than causal in capture, and model code may bound its sums."""
    if node.target not in (aten.masked_fill.Scalar, aten.max.other):
        return False
    value = value_for(graph, node.args[1], _TOKENS)
    if value is None:
        return False
    return not value.any() if node.target is aten.masked_fill.Scalar else bool((value < _LOWEST).all())


def _number(graph: GraphModule, value: Any) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, Node) and value.op == "get_attr":
        held = attribute(graph, str(value.target))
        return float(held) if isinstance(held, Tensor) and held.numel() == 1 else None
    if isinstance(value, Node) and value.target in _SAME:
        return _number(graph, value.args[0])
    return None


def _window(graph: GraphModule, mask: Any) -> int | None:
    """The window of a stored triangle, 0 where it has none; None for any other mask."""
    for node in _back(mask):
        mask = node
    if not isinstance(mask, Node) or mask.op != "get_attr":
        return None
    table = attribute(graph, str(mask.target))
    table = table.reshape(table.shape[-2:]).bool()
    places, width = torch.arange(table.shape[0]), int(table[-1].sum())
    window = 0 if width == table.shape[0] else width
    return (
        window
        if table.shape[0] == table.shape[1] and torch.equal(table, visible(places, places, True, window))
        else None
    )


def _back(node: Any) -> Iterator[Any]:
    while isinstance(node, Node) and node.target in _CUT:
        node = node.args[0]
        yield node
