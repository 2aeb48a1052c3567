"""Attention with linear biases (ALiBi, arXiv 2108.12409) as attention over two further channels of queries and keys.

    softmax(scale * q k^T + slope * p) v                                            p: the position of each key
        ==>
    edgec::attention([q, 256 slope / scale, slope / scale], [k, p // 256, p % 256], v)

Softmax does not see what all keys of a query have in common, so a bias by distance is one by the key's position. Two
channels, because a cache in float16 holds no integer above 2,048 exactly. Rounding keys to integers would round the
positions too: the ladder's quality rung measures that. The bias is recognised by its values: it is computed from the
number of tokens alone, and grows by the same step from key to key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Interpreter, Node

from edgec.ir.attributes import attribute
from edgec.passes.contract import placeholder
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_STEP = 256
# Numbers of tokens that a bias is computed for.
_TRIED = (7, 12)


def value_for(graph: GraphModule, node: Any, tokens: int) -> Any:
    """The value of a node in a call of so many tokens; None where it depends on more than their number."""
    sources = _sources(node) if isinstance(node, Node) else None
    if sources is None or any(_is_weight(graph, each) for each in sources):
        return None
    part, copies = Graph(), dict[Node, Node]()
    for each in graph.graph.nodes:
        if each in sources:
            copies[each] = part.node_copy(each, lambda n: copies[n])
    part.output(copies[node])
    places = torch.arange(tokens)
    given = {"tokens": torch.zeros(1, tokens, dtype=torch.long), "positions": places}
    inputs = [given[str(each.target)] for each in sources if each.op == "placeholder"]
    return Interpreter(GraphModule(graph, part)).run(*inputs)


def _sources(node: Node) -> dict[Node, None] | None:
    """A node and all that it is computed from, inputs in the graph's order; None where a token's value matters."""
    sources: dict[Node, None] = {}
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each in sources:
            continue
        sources[each] = None
        if each.op == "placeholder" and each.target == "tokens" and not _only_sizes(each, sources):
            return None
        waiting += each.all_input_nodes
    order = {each: index for index, each in enumerate(node.graph.nodes)}
    return dict.fromkeys(sorted(sources, key=order.__getitem__))


def _only_sizes(tokens: Node, readers: Mapping[Node, None]) -> bool:
    return all(user.target is aten.sym_size.int for user in tokens.users if user in readers)


def _is_weight(graph: GraphModule, node: Node) -> bool:
    return node.op == "get_attr" and isinstance(attribute(graph, str(node.target)), torch.nn.Parameter)


def slopes_of(graph: GraphModule, bias: Any, heads: int) -> Tensor | None:
    """The step of a bias from key to key for each head [H]; None for any other bias."""
    steps = [_steps(value_for(graph, bias, tokens), heads, tokens) for tokens in _TRIED]
    first, second = steps
    return first if first is not None and second is not None and torch.equal(first, second) else None


def _steps(value: Tensor | None, heads: int, tokens: int) -> Tensor | None:
    if value is None or value.dim() > 4 or value.shape[-1] not in (1, tokens):
        return None
    rows = value.double().expand(*value.shape[:-1], tokens)
    rows = rows.reshape(-1, rows.shape[-2] if rows.dim() > 1 else 1, tokens)
    if rows.shape[0] not in (1, heads) or not torch.equal(rows, rows[:, :1].expand_as(rows)):
        return None
    steps = rows[:, 0].diff(dim=-1)
    same = torch.allclose(steps, steps[:, :1].expand_as(steps), rtol=1e-4, atol=1e-6)
    return steps[:, 0].float().expand(heads) if same else None


def with_positions(graph: GraphModule, q: Node, k: Node, slopes: Tensor, scale: float) -> tuple[Node, Node]:
    """Queries [B, H, S, D + 2] and keys [B, G, S, D + 2], whose product adds the slopes."""
    emit, positions = Emitter(graph.graph), placeholder(graph, "positions")
    name = f"key_bias_{sum(name.startswith('key_bias_') for name, _ in graph.named_buffers())}"
    graph.register_buffer(name, (slopes / scale)[None, :, None, None] * torch.tensor([_STEP, 1.0]))
    held = graph.graph.get_attr(name)
    held.meta["val"] = q.meta["val"].fake_mode.from_tensor(getattr(graph, name), static_shapes=True)
    far = emit(aten.floor_divide.default, positions, _STEP)
    near = emit(aten.remainder.Scalar, positions, _STEP)
    # Cast before they are joined: Core ML's two operators give numbers of different types.
    places = emit(aten.stack.default, [emit(aten.to.dtype, each, torch.float32) for each in (far, near)], -1)
    return _joined(emit, q, held), _joined(emit, k, places)


def _joined(emit: Emitter, tensor: Node, channels: Node) -> Node:
    sizes = [emit.size(tensor, dim) for dim in range(3)]
    return emit(aten.cat.default, [tensor, emit(aten.expand.default, channels, [*sizes, 2])], -1)
