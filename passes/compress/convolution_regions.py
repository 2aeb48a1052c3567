"""The values around convolutions that are held in 8 bits, and who reads them so.

    x ------> pad -> conv -> relu -> max_pool -> conv -> + -> relu
    held      read   .       held    held        held        held

XNNPACK computes a convolution in integers where its input is in 8 bits, perhaps behind zeros of padding, and where its
result, or a ReLU that alone reads it, goes back into 8 bits. From there on 8 bits are kept through the greatest of
neighbours, whose range is that of the neighbours, through sums of two such values, through channels laid side by side,
which share one range, and through means over all places that only convolutions read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.passes.graph.convolution_call import ConvolutionCall

aten = torch.ops.aten
_CUTS_OF_SUMS = frozenset({aten.relu.default, aten.relu_.default})
_CUTS = _CUTS_OF_SUMS | {aten.relu6.default, aten.hardtanh.default, aten.hardtanh_.default}
_GREATEST = frozenset({aten.max_pool2d.default})
_SHAPES = frozenset(
    {
        *(aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.unflatten.int, aten.permute.default),
        *(aten.transpose.int, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default, aten.unsqueeze.default),
        *(aten.contiguous.default, aten.clone.default, aten.slice.Tensor, aten.select.int),
    }
)
# Dimensions of images, and the most values that XNNPACK lays side by side at once.
_IMAGE, _MOST_PARTS = 4, 5
_PADS = frozenset({aten.pad.default, aten.constant_pad_nd.default})


@dataclass(frozen=True)
class StoredValue:
    """A value in 8 bits.

    Attributes:
        node: what gives it in float.
        convolutions: those that read it.
        readers: who reads the integers: these convolutions, or padding before them.
        result_of: the convolution whose result it is, if it is one.
        needs: the held values that it is made from, where it does not come from a convolution.
        like: the values that have one range with it.
        every_reader: whether all that read the float value read the integers instead.
    """

    node: Node
    convolutions: tuple[Node, ...] = ()
    readers: tuple[Node, ...] = ()
    result_of: Node | None = None
    needs: tuple[Node, ...] = ()
    like: tuple[Node, ...] = ()
    every_reader: bool = False

    def read_alone(self, rounded: AbstractSet[Node]) -> StoredValue:
        """The value in float, of which only rounded convolutions read the integers."""
        own = [each for each in self.readers if each in rounded or not rounded.isdisjoint(each.users)]
        return replace(self, readers=tuple(own), every_reader=False)


def held_where_rounded(values: Sequence[StoredValue], rounded: AbstractSet[Node]) -> list[StoredValue]:
    """The values that are held where only these convolutions are rounded, in order."""
    kept: dict[Node, StoredValue] = {}
    for value in values:
        made = value.result_of in rounded or (bool(value.needs) and all(_is_whole(kept, each) for each in value.needs))
        if made or not rounded.isdisjoint(value.convolutions):
            kept[value.node] = value if made else value.read_alone(rounded)
    return [*kept.values()]


def _is_whole(kept: dict[Node, StoredValue], node: Node) -> bool:
    return node in kept and kept[node].every_reader


def is_output(node: Node) -> bool:
    """Whether a value leaves the graph as it is, or in another shape."""
    return any(user.op == "output" or (user.target in _SHAPES and is_output(user)) for user in node.users)


def held_values(graph: GraphModule, wanted: Sequence[ConvolutionCall]) -> list[StoredValue]:
    """The values that are held where these convolutions are rounded, in graph order."""
    held: dict[Node, StoredValue] = {}
    results = {_result(call.node, _CUTS): call.node for call in wanted}
    for node in graph.graph.nodes:
        if node in results:
            held[node] = StoredValue(node, result_of=results[node], every_reader=True)
        elif (kept := _kept(node, held, [call.node for call in wanted])) is not None:
            held[kept.node] = kept
    for call in wanted:
        reader, source = _read(call)
        value = held.get(source, StoredValue(source))
        held[source] = replace(
            value, convolutions=(*value.convolutions, call.node), readers=tuple(dict.fromkeys((*value.readers, reader)))
        )
    order = {node: index for index, node in enumerate(graph.graph.nodes)}
    return sorted(held.values(), key=lambda value: order[value.node])


def _kept(node: Node, held: dict[Node, StoredValue], wanted: Sequence[Node]) -> StoredValue | None:
    """The value that an operator between convolutions gives in 8 bits, as its inputs are."""
    parts = tuple(node.all_input_nodes)
    if node.target in _GREATEST and node.args[0] in held and _is_plain_pool(node):
        source = node.args[0]
        assert isinstance(source, Node)
        return StoredValue(node, needs=(source,), like=(source,), every_reader=True)
    if node.target is aten.add.Tensor and _is_plain_sum(node) and all(each in held for each in node.args):
        return StoredValue(_result(node, _CUTS_OF_SUMS), needs=parts, every_reader=True)
    if node.target is aten.cat.default and _is_plain_cat(node) and all(each in held for each in parts):
        return StoredValue(node, needs=parts, like=parts, every_reader=True)
    if _is_mean_of_places(node) and parts[0] in held and all(user in wanted for user in node.users):
        return StoredValue(node, needs=parts, every_reader=True)
    return None


def _nodes(arguments: Iterable[Any]) -> list[Node]:
    return [each for each in arguments if isinstance(each, Node)]


def _is_plain_sum(node: Node) -> bool:
    """Whether two values of one shape are added as they are."""
    parts = _nodes(node.args)
    shapes = {tuple(each.meta["val"].shape) for each in parts if "val" in each.meta}
    return len(parts) == 2 and parts[0] is not parts[1] and len(shapes) == 1 and not node.kwargs


def _is_plain_cat(node: Node) -> bool:
    """Whether XNNPACK lays these values side by side: two to five different ones."""
    given: Any = node.args[0]
    return 2 <= len(given) <= _MOST_PARTS and len(set(given)) == len(given)


def _is_mean_of_places(node: Node) -> bool:
    """Whether a value is the mean over height and width, which are kept as 1."""
    given: Any = [*node.args]
    if node.target is aten.adaptive_avg_pool2d.default:
        return [*given[1]] in ([1], [1, 1]) and node.meta["val"].dim() == _IMAGE
    if node.target is not aten.mean.dim or node.kwargs or given[2:] != [True] or node.meta["val"].dim() != _IMAGE:
        return False
    return sorted(dim % _IMAGE for dim in given[1]) == [2, 3]


def _is_plain_pool(node: Node) -> bool:
    """Whether XNNPACK takes the pooling: windows that leave nothing out, of floor sizes."""
    given: Any = [*node.args]
    window, stride = _pair(given[1]), _pair(given[2] if len(given) > 2 and given[2] else given[1])
    ceil = bool(given[5]) if len(given) > 5 else bool(node.kwargs.get("ceil_mode", False))
    return not ceil and all(step <= size for step, size in zip(stride, window, strict=True))


def _pair(sizes: Sequence[int]) -> tuple[int, int]:
    return (sizes[0], sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


def _result(node: Node, cuts: AbstractSet[Any]) -> Node:
    """The node whose value goes into 8 bits: a cut that alone reads the operator, else the operator."""
    users = [*node.users]
    return users[0] if len(users) == 1 and users[0].target in cuts else node


def _read(call: ConvolutionCall) -> tuple[Node, Node]:
    """Who reads integers for a convolution, itself or padding before it; and the value they are of."""
    pad = call.x
    if pad.target not in _PADS or call.transposed or len(pad.users) > 1 or not _is_zero_pad(pad):
        return call.node, call.x
    source = pad.args[0]
    assert isinstance(source, Node)
    return pad, source


def _is_zero_pad(node: Node) -> bool:
    """Whether zeros are added to places alone: neither to channels nor to examples, and nothing is cut off."""
    given: Any = [*node.args]
    mode = given[2] if node.target is aten.pad.default and len(given) > 2 else "constant"
    last = given[3:] if node.target is aten.pad.default else given[2:]
    places = node.meta["val"].dim() - 2
    beyond = given[1][2 * places :]
    return mode == "constant" and not any([*last, *beyond]) and all(count >= 0 for count in given[1])
