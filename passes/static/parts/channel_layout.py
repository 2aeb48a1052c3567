"""The channel layout (1, C, 1, S): which operators have a form in it, and how values move to it from rows.

rows [1,S,C]                                channels [1,C,1,S]
  x + y, x * w [C], silu(x), x^2              the same, w as [C,1,1]
  mean(x, -1), amax(x, -1)                    over dim 1
  slice, cat, split of dim -1                 of dim 1
  index_select of dim 1 (rows)                of dim 3
  view [1,S,H,D]                              reshape [1,H,D,S] -> permute
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute, read_shared
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_ELEMENTWISE = frozenset(
    {
        *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.maximum.default),
        *(aten.add.Scalar, aten.mul.Scalar, aten.sub.Scalar, aten.div.Scalar, aten.neg.default, aten.abs.default),
        *(aten.silu.default, aten.gelu.default, aten.relu.default, aten.tanh.default, aten.sigmoid.default),
        *(aten.pow.Tensor_Scalar, aten.rsqrt.default, aten.sqrt.default, aten.reciprocal.default),
        *(aten.to.dtype, aten.clamp.default, aten.exp.default, aten.erf.default),
    }
)
_REDUCTIONS = frozenset({aten.mean.dim, aten.amax.default, aten.sum.dim_IntList})
_DIMS = {0: 0, 1: 3, 2: 1, -1: 1, -2: 3, -3: 0}
LayoutRule = Callable[["ChannelLayout", Emitter, Node], Node | None]


@dataclass
class ChannelLayout:
    """The values of one graph that have a form in channels.

    Attributes:
        graph: changed in place.
        channels: node in rows -> its form in channels.
        rows: node in rows -> that form transposed back, where a reader needs it.
    """

    graph: GraphModule
    channels: dict[Node, Node] = field(default_factory=dict)
    rows: dict[Node, Node] = field(default_factory=dict)

    def visit(self, node: Node) -> None:
        """Give an operator its form in channels, or let it read rows."""
        rule = _RULES.get(node.target)
        if any(source in self.channels for source in node.all_input_nodes):
            with self.graph.graph.inserting_before(node):
                result = rule(self, Emitter(self.graph.graph), node) if rule else None
            if result is not None:
                self.settle(node, result)
            else:
                self._read_rows(node)

    def settle(self, node: Node, result: Node) -> None:
        """Remember a value in channels; one that does not hold rows of tokens any more replaces the node at once."""
        if _is_rows(node):
            self.channels[node] = result
        else:
            node.replace_all_uses_with(result)

    def channels_of(self, node: Node, reader: Node) -> Node:
        """A value in channels; where there is none yet, rows are transposed in front of their first reader."""
        if node not in self.channels:
            with self.graph.graph.inserting_before(reader):
                emit = Emitter(self.graph.graph)
                transposed = emit(aten.unsqueeze.default, emit(aten.transpose.int, node, 1, 2), 2)
            self.channels[node] = self.rows[transposed] = transposed
            self.rows[node] = node
        return self.channels[node]

    def _read_rows(self, node: Node) -> None:
        for source in node.all_input_nodes:
            if source in self.channels:
                node.replace_input_with(source, self._rows_of(source))

    def _rows_of(self, source: Node) -> Node:
        if source not in self.rows:
            in_channels = self.channels[source]
            with self.graph.graph.inserting_after(in_channels):
                flat = Emitter(self.graph.graph)(aten.squeeze.dim, in_channels, 2)
            with self.graph.graph.inserting_after(flat):
                self.rows[source] = Emitter(self.graph.graph)(aten.transpose.int, flat, 1, 2)
        return self.rows[source]

    def operand(self, value: Any, reader: Node) -> Any:
        """An operand of an elementwise operator in channels.

        Raises:
            LookupError: the operand has no form in channels.
        """
        if not isinstance(value, Node) or value.meta["val"].dim() == 0:
            return value
        if _is_rows(value):
            return self.channels_of(value, reader)
        if value.meta["val"].dim() == 1:
            return self._vector(value)
        raise LookupError(value.name)

    def _vector(self, node: Node) -> Node:
        """A vector [C] as [C,1,1]; a constant is stored again in that shape."""
        if node.op != "get_attr":
            return Emitter(self.graph.graph)(aten.reshape.default, node, [-1, 1, 1])
        name = f"{node.target}_channels"
        vector = attribute(self.graph, str(node.target)).detach()
        held = read_shared(self.graph, name, lambda: vector[:, None, None])
        held.meta["val"] = node.meta["val"][:, None, None]
        return held


def _is_rows(node: Node) -> bool:
    """Whether a value has the shape [1, S, C]."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dim() == 3 and value.shape[0] == 1


def _elementwise(layout: ChannelLayout, emit: Emitter, node: Node) -> Node | None:
    if not _is_rows(node):
        return None
    try:
        args = [layout.operand(value, node) for value in node.args]
    except LookupError:
        return None
    return emit(node.target, *args, **node.kwargs)


def _reduction(layout: ChannelLayout, emit: Emitter, node: Node) -> Node | None:
    given: Any = node.args
    source, dims, keep = (*given, False)[:3]
    if keep is not True or list(dims) not in ([-1], [2]):
        return None
    return emit(node.target, layout.channels[source], [1], True, *given[3:], **node.kwargs)


def _along(layout: ChannelLayout, emit: Emitter, node: Node) -> Node | None:
    """Rule of operators whose second argument is a dimension of the first."""
    given: Any = node.args
    source, dim, *rest = given
    dim = dim if isinstance(dim, int) else 0
    if source not in layout.channels or any(each in layout.channels for each in node.all_input_nodes[1:]):
        return None
    return emit(node.target, layout.channels[source], _DIMS[dim], *rest)


def _cat(layout: ChannelLayout, emit: Emitter, node: Node) -> Node | None:
    given: Any = node.args
    sources, dim = (*given, 0)[:2]
    if not all(isinstance(source, Node) and _is_rows(source) for source in sources):
        return None
    return emit(node.target, [layout.channels_of(source, node) for source in sources], _DIMS[dim])


def _split(layout: ChannelLayout, emit: Emitter, node: Node) -> Node | None:
    """Rule of splits: their parts are taken one by one, as slices."""
    given: Any = node.args
    source, _, dim = (*given, 0)[:3]
    lengths = [int(part.shape[dim]) for part in node.meta["val"]]
    if _DIMS[dim] != 1:
        return None
    starts = [sum(lengths[:index]) for index in range(len(lengths))]
    for user in list(node.users):
        index: Any = user.args[1]
        part = emit(aten.slice.Tensor, layout.channels[source], 1, starts[index], starts[index] + lengths[index])
        layout.settle(user, part)
    return layout.channels[source]


def _view(layout: ChannelLayout, emit: Emitter, node: Node) -> Node | None:
    """Rule of views that divide [1,S,C] into heads [1,S,H,D]."""
    source, shape = node.args[0], list(node.meta["val"].shape)
    assert isinstance(source, Node)
    if len(shape) != 4 or shape[:2] != list(source.meta["val"].shape[:2]):
        return None
    heads = emit(aten.reshape.default, layout.channels[source], [1, shape[2], shape[3], shape[1]])
    return emit(aten.permute.default, heads, [0, 3, 1, 2])


def _table() -> dict[Any, LayoutRule]:
    families: Sequence[tuple[LayoutRule, Sequence[Any]]] = (
        (_elementwise, tuple(_ELEMENTWISE)),
        (_reduction, tuple(_REDUCTIONS)),
        (_along, (aten.slice.Tensor, aten.index_select.default)),
        (_cat, (aten.cat.default,)),
        (_split, (aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default)),
        (_view, (aten.view.default, aten.reshape.default)),
    )
    return {operator: rule for rule, operators in families for operator in operators}


_RULES = _table()
