"""Train low-rank changes beside frozen integer weights: LoRA, which here also wins back what rounding lost.

    x -> quantize/dequantize -> linear(dequantize_affine(W_int))
    ==>
    x -> fake_input -> linear(W as its integers read) -> + B (A x)            only A [r, K] and B [N, r] learn

The change reads the input before it is rounded, as edgec's kernels compute it at run time. Weights were rounded by
``quantize`` itself, so the base is the export's to the last integer; they are unpacked once, not in every step.

Legality: the graph holds integer weights. The lm_head, tables, experts and what stays in float get no change. Exact, as
B begins as zeros: nothing changes until it is trained. Measured on a tiny random Llama (2 layers, hidden size 32) with
rank 4: 14 modules, 5,120 parameters to learn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attributes import attribute, set_buffer, set_parameter
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import DEQUANTIZE, QUANTIZE, WEIGHT_FORMS, decisions_of
from edgec.ir.weight_decision import Decision
from edgec.passes.contract import nodes_of
from edgec.passes.train.straight_through import fake_input

aten = torch.ops.aten


@dataclass(frozen=True)
class AdaptedModule:
    """A module with a low-rank change: its name in the model, and the names of A and B in the graph."""

    name: str
    a: str
    b: str


@dataclass(frozen=True)
class TrainAdapter:
    """Add low-rank changes to integer layers and freeze everything else; exact as long as they are not trained.

    Attributes:
        rank: rows of A and columns of B.
    """

    RECORD: ClassVar[str] = "edgec_adapted"
    rank: int = 16
    name: str = "train_adapter"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """The rank is positive, and there are integer layers."""
        if self.rank < 1:
            raise InputError(f"a rank of {self.rank} is not possible", self.name, fix="use 1 or more", code="E501")
        if not _integer_layers(program.graph):
            raise InputError(
                what="there is nothing for an adapter to change",
                where=self.name,
                why="adapters change matrices of integers, and the recipe stores no linear layer as integers",
                fix="use a recipe that rounds weights, such as 4bit",
                code="E698",
            )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Freeze the graph, add a change after each layer, and let gradients pass where inputs are rounded."""
        for parameter in graph.parameters():
            parameter.requires_grad_(False)
        modules = {}
        for linear, decision in _integer_layers(graph).items():
            modules[decision.name] = self._change(graph, linear, decision)
        graph.meta[self.RECORD] = tuple(modules.values())
        _unpack(graph)
        return program.interface

    def _change(self, graph: GraphModule, linear: Node, decision: Decision) -> AdaptedModule:
        stem, name = f"{linear.args[1].args[0].target}".removesuffix("_int"), decision.name.removesuffix(".weight")  # type: ignore[union-attr]
        module = AdaptedModule(name, f"{stem}_lora_a", f"{stem}_lora_b")
        (rows, width), generator = decision.shape, torch.Generator().manual_seed(sum(map(ord, name)))
        set_parameter(graph, module.a, nn.Parameter(torch.randn(self.rank, width, generator=generator) * width**-0.5))
        set_parameter(graph, module.b, nn.Parameter(torch.zeros(rows, self.rank)))
        with graph.graph.inserting_after(linear):
            a = graph.graph.get_attr(module.a)
        with graph.graph.inserting_after(a):
            b = graph.graph.get_attr(module.b)
        with graph.graph.inserting_after(b):
            changed = graph.graph.call_function(add_low_rank, (linear, _float_input(linear), a, b))
        changed.meta = dict(linear.meta)
        linear.replace_all_uses_with(changed, delete_user_cb=lambda user: user is not changed)
        return module

    def ensures(self, program: Program) -> None:
        """Only the changes learn."""
        learns = {name for name, parameter in program.graph.named_parameters() if parameter.requires_grad}
        assert learns == {name for module in adapted_modules(program.graph) for name in (module.a, module.b)}


def adapted_modules(graph: GraphModule) -> tuple[AdaptedModule, ...]:
    """The modules with a change, in the graph's order."""
    modules: tuple[AdaptedModule, ...] = graph.meta.get(TrainAdapter.RECORD, ())
    return modules


def add_low_rank(y: Tensor, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``y`` [..., N] + ``b`` [N, r] (``a`` [r, K] ``x`` [..., K])."""
    return y + (x @ a.T) @ b.T


def _integer_layers(graph: GraphModule) -> Mapping[Node, Decision]:
    """The linear layers that read integers, without the lm_head; a matrix that several layers read is left alone."""
    decided = {each.buffers[0]: each for each in decisions_of(graph) if each.buffers and each.role == "linear"}
    readers: dict[str, list[Node]] = {}
    for linear in nodes_of(graph, aten.linear.default):
        weight = linear.args[1]
        if isinstance(weight, Node) and weight.target in WEIGHT_FORMS:
            readers.setdefault(str(weight.args[0].target), []).append(linear)  # type: ignore[union-attr]
    return {layers[0]: decided[name] for name, layers in readers.items() if name in decided and len(layers) == 1}


def _float_input(linear: Node) -> Node:
    """What a layer's input was rounded from."""
    read = linear.args[0]
    assert isinstance(read, Node)
    source = _rounded_from(read)
    return read if source is None else source


def _rounded_from(node: Node) -> Node | None:
    """The float value of which a node holds the 8-bit form; None for any other node."""
    integers = node.args[0] if node.target is DEQUANTIZE else None
    if not isinstance(integers, Node) or integers.target is not QUANTIZE:
        return None
    source = integers.args[0]
    assert isinstance(source, Node)
    return source


def _unpack(graph: GraphModule) -> None:
    """Replace integers by the values that they stand for, and rounded inputs by ones that gradients pass."""
    values: dict[str, str] = {}
    for node in nodes_of(graph, *WEIGHT_FORMS):
        source = _rounded_from(node)
        with graph.graph.inserting_before(node):
            if source is None:
                plain = graph.graph.get_attr(_unpacked(graph, node, values))
            else:
                plain = graph.graph.call_function(fake_input, (source,))
        plain.meta = dict(node.meta)
        node.replace_all_uses_with(plain)


@torch.no_grad()
def _unpacked(graph: GraphModule, node: Node, values: dict[str, str]) -> str:
    """The name of a buffer with the values of a matrix of integers, made once."""
    integers = str(node.args[0].target)  # type: ignore[union-attr]
    if integers not in values:
        values[integers] = f"{integers}_values"
        stored = (attribute(graph, str(arg.target)) if isinstance(arg, Node) else arg for arg in node.args)
        set_buffer(graph, values[integers], node.target(*stored).float())  # type: ignore[operator]
    return values[integers]
