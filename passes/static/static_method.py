"""Make an entry point with fixed shapes, as NPUs need it.

    tokens int64 [1,S], positions int64 [S], logit_index int64 [K]            S and K vary
    ==>
    tokens int32 [1,64], start int32 [1], last int32 [1]                      prefill; decode has 1 in place of 64
      start + (0 .. 63) -> positions ; last -> logit_index

    features float32 [1,S,W], seen bool [1,S,1]    ==>    features float32 [1,64,W], seen float32 [1,64,1] -> seen > 0.5

``start`` is the position of the first token, ``last`` the row whose logits are wanted: tokens after it are padding,
whose keys are overwritten before any later token could reach them. Rows in the place of tokens, and what is known of an
encoder's source, stay inputs, between ``start`` and ``last``; truth values come as numbers, 0 or 1. Legality: a decoder
whose only varying sizes are S and K, after ``last_logits``. Exact. Measured on examples/tiny-stories: 394 operators
become 393, none of which computes a size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgec.errors import InputError
from edgec.ir.attributes import attribute
from edgec.ir.memory_inputs import is_memory
from edgec.ir.program import Dynamic, Effect, Interface, Program, TensorType
from edgec.ir.row_inputs import ROW_INPUTS, static_type
from edgec.passes.contract import last_placeholder, nodes_of, placeholder

aten = torch.ops.aten
_BEFORE = ("tokens", "positions", "logit_index")


@dataclass(frozen=True)
class StaticMethod:
    """Fix S at ``tokens`` and K at 1; exact.

    Attributes:
        method: the entry point's name.
        tokens: S.
    """

    method: str
    tokens: int
    name: str = "static_method"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """The inputs are those of a decoder after ``last_logits``."""
        names = [tensor.name for tensor in program.interface.inputs]
        if tuple(name for name in names if not _stays(name)) != _BEFORE:
            raise InputError(
                what="this graph cannot be given fixed shapes",
                where=self.name,
                why=f"its inputs are {', '.join(names)}, not {', '.join(_BEFORE)}",
                fix="let last_logits run before it",
                code="E400",
            )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace the inputs and every size that follows from them."""
        start = _rename(graph, "positions", "start")
        _rename(graph, "logit_index", "last")
        _count_from(graph, start, self.tokens)
        _take_numbers(graph, [each.name for each in program.interface.inputs if each.dtype is torch.bool])
        examples = _examples(program.interface, self.tokens)
        fix_shapes(graph, examples)
        for view in nodes_of(graph, aten.view.default):
            view.target = aten.reshape.default  # later passes change the order in which values lie in memory
        vocabulary = program.interface.outputs[0].shape[-1]
        return Interface(
            inputs=tuple(TensorType(name, e.dtype, tuple(e.shape)) for name, e in examples.items()),
            outputs=(TensorType("logits", torch.float32, (1, 1, vocabulary)),),
            states=program.interface.states,
        )

    def ensures(self, program: Program) -> None:
        """No node computes a size."""
        assert not any(node.target is aten.sym_size.int for node in program.graph.graph.nodes)


def _stays(name: str) -> bool:
    """Whether an input stays one, between ``start`` and ``last``."""
    return name in ROW_INPUTS or is_memory(name)


def _examples(before: Interface, tokens: int) -> Mapping[str, Tensor]:
    """An example of each input, by its name; rows in the place of tokens have the tokens' number."""
    one = torch.zeros(1, dtype=torch.int32)
    rows = {each.name: _fixed(each, tokens) for each in before.inputs if _stays(each.name)}
    return {"tokens": torch.zeros(1, tokens, dtype=torch.int32), "start": one, **rows, "last": one.clone()}


def _fixed(tensor: TensorType, tokens: int) -> Tensor:
    shape = [tokens if isinstance(size, Dynamic) else size for size in tensor.shape]
    return torch.zeros(shape, dtype=static_type(tensor.dtype))


def _take_numbers(graph: GraphModule, names: Sequence[str]) -> None:
    """Take truth values, inputs by these names, as numbers, which are compared first."""
    last = last_placeholder(graph)
    for name in names:
        node = placeholder(graph, name)
        readers = list(node.users)
        with graph.graph.inserting_after(last):
            truth = graph.graph.call_function(aten.gt.Scalar, (node, 0.5))
        for reader in readers:
            reader.replace_input_with(node, truth)


def _rename(graph: GraphModule, old: str, new: str) -> Node:
    node = placeholder(graph, old)
    node.target = node.name = new
    return node


def _count_from(graph: GraphModule, start: Node, tokens: int) -> None:
    """Let the readers of positions read ``start + (0 .. S-1)``."""
    graph.register_buffer("chunk_offsets", torch.arange(tokens, dtype=torch.int32))
    last_input = last_placeholder(graph)
    with graph.graph.inserting_after(last_input):
        offsets = graph.graph.get_attr("chunk_offsets")
    with graph.graph.inserting_after(offsets):
        positions = graph.graph.call_function(aten.add.Tensor, (offsets, start))
    start.replace_all_uses_with(positions, delete_user_cb=lambda user: user is not positions)


def fix_shapes(graph: GraphModule, inputs: Mapping[str, Tensor]) -> None:
    """Recompute ``meta["val"]`` of every node and replace computed sizes by their values.

    x [1,64,H] -> sym_size(1) -> view(x, [1, s, 16, 32])          ==>          view(x, [1, 64, 16, 32])

    Args:
        graph: changed in place.
        inputs: an example of each input, by name; only dtype and shape count.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        for node in list(graph.graph.nodes):
            value = _value(graph, node, inputs, mode)
            if isinstance(value, int | float | bool):
                _replace_by_number(graph, node, value)
            elif node.op != "output":
                node.meta["val"] = value


def _value(graph: GraphModule, node: Node, inputs: Mapping[str, Tensor], mode: Any) -> Any:
    if node.op == "placeholder":
        return mode.from_tensor(inputs[str(node.target)], static_shapes=True)
    if node.op == "get_attr":
        return mode.from_tensor(attribute(graph, str(node.target)), static_shapes=True)
    if node.op == "output":
        return None
    args, kwargs = map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
    function: Any = node.target
    return function(*args, **kwargs)


def _replace_by_number(graph: GraphModule, node: Node, value: float) -> None:
    for user in list(node.users):
        user.args = map_arg(user.args, lambda source: value if source is node else source)
        user.kwargs = map_arg(user.kwargs, lambda source: value if source is node else source)
    graph.graph.erase_node(node)
