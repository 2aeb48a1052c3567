"""Writes of ``forward`` into tensors that outlive a call: of a buffer, a parameter or an input.

    buffer h -> add_(x) -> output       the next call reads what this one wrote: refused
    buffer n -> add_(1)                 nothing reads it: left out
    buffer s -> zero_ -> copy_(x) ...   written before it is read, scratch: computed anew in each call
    input x -> add_(1)                  computed beside the input, which stays as it is

Every written tensor is copied first, so that ``make_functional`` can turn the writes into values; whether an output
then depends on the copy is whether it depends on an earlier call.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attributes import attribute
from edgec.ir.quantized_form import drop_if_unused
from edgec.passes.contract import last_placeholder
from edgec.passes.graph.emit import Emitter
from edgec.passes.graph.functional import make_functional, memory_of, written

aten = torch.ops.aten
# They read no value of their first operand, only its shape.
_SHAPE_ONLY = frozenset(
    {
        *(aten.zero.default, aten.fill.Scalar, aten.fill.Tensor, aten.copy.default, aten.sym_size.int),
        *(aten.zeros_like.default, aten.ones_like.default, aten.empty_like.default, aten.full_like.default),
        *(aten.new_zeros.default, aten.new_ones.default, aten.new_empty.default, aten.new_full.default),
    }
)
# Norms that write running statistics where they compute their own: the places of the two, and of the switch.
_NORMS = {aten.batch_norm.default: (3, 4, 5), aten.instance_norm.default: (3, 4, 5)}


def settle_writes(graph: GraphModule, where: str) -> None:
    """Leave no write into a buffer, a parameter or an input in a captured graph.

    Raises:
        InputError: E790, an output depends on what an earlier call wrote.
    """
    _forget_running_statistics(graph)
    copies = {_copied(graph, node): node for node in _written_holders(graph)}
    make_functional(graph)
    kept = {copy: node for copy, node in copies.items() if node.op == "get_attr"}
    for copy, node in kept.items():
        reached = _reached(copy)
        if any(each.op == "output" for each in reached) or _shares_memory(graph, node):
            names = sorted(str(each.target) for each in kept.values())
            raise keeps_state(where, f"forward writes {', '.join(names)}, and its outputs depend on {node.target}")
        for each in (each for each in sorted(reached, reverse=True) if not each.users):
            graph.graph.erase_node(each)
        drop_if_unused(graph, node)


def keeps_state(where: str, why: str) -> InputError:
    """The error for a module whose answer depends on its earlier calls."""
    return InputError(
        what="The module keeps state between calls.",
        where=where,
        why=why,
        fix="make it an input and an output: forward takes the state, and returns the new one beside its answer",
        code="E790",
    )


def _forget_running_statistics(graph: GraphModule) -> None:
    """Norms over a batch's own statistics read no running ones, and need not write them."""
    for node in graph.graph.nodes:
        if node.target in _NORMS:
            mean, variance, switch = _NORMS[node.target]
            if node.args[switch]:
                node.update_arg(mean, None)
                node.update_arg(variance, None)


def _written_holders(graph: GraphModule) -> list[Node]:
    """The inputs, parameters and buffers that operators write into, themselves or through views, in order."""
    owners = {memory_of(value) for node in graph.graph.nodes for value in written(node)}
    return [node for node in graph.graph.nodes if node in owners and node.op in ("placeholder", "get_attr")]


def _copied(graph: GraphModule, node: Node) -> Node:
    """A copy of a tensor, which all its readers read."""
    with graph.graph.inserting_after(last_placeholder(graph)):
        copy = Emitter(graph.graph)(aten.clone.default, node)
    node.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)
    return copy


def _reached(copy: Node) -> set[Node]:
    """All nodes that depend on a copy's values."""
    reached, waiting = set[Node](), [copy]
    while waiting:
        node = waiting.pop()
        reached.add(node)
        waiting += [user for user in node.users if user not in reached and _reads(user, node)]
    return reached


def _reads(user: Node, node: Node) -> bool:
    """Whether a node reads the values of another; an operator in ``_SHAPE_ONLY`` those of later operands only."""
    operands = user.args[1:] if user.target in _SHAPE_ONLY else (user.args, user.kwargs)
    found: list[Node] = []
    torch.fx.map_arg(operands, found.append)
    return node in found


def _shares_memory(graph: GraphModule, written_node: Node) -> bool:
    """Whether the graph reads the memory of a written tensor under another name too."""
    held = [attribute(graph, str(n.target)) for n in graph.graph.nodes if n.op == "get_attr" and n is not written_node]
    memory = attribute(graph, str(written_node.target)).untyped_storage().data_ptr()
    return any(isinstance(value, Tensor) and value.untyped_storage().data_ptr() == memory for value in held)
