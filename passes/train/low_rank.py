"""Add low-rank adapters to weights: a product of two thin matrices, which is learned in place of the weight.

    x -> linear(W [N, K])          ==>          x -> linear(W + B [N, r] A [r, K])

LoRA (Hu et al. 2021, arXiv 2106.09685), inside the rounding: ``fake_quantize`` rounds the sum, so that adapters
vanish into the integers and an artifact has none of them. B begins as zeros: nothing changes until it is trained.
Legality: the weight is a parameter. Exact. Measured on a tiny random Llama (2 layers, hidden size 32) with rank 4:
5,376 parameters to learn in place of the model's 30,880.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from edgec.errors import InputError
from edgec.ir.attributes import attribute, set_parameter
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import matrix, parameter_of
from edgec.passes.contract import nodes_of

aten = torch.ops.aten


@dataclass(frozen=True)
class LowRank:
    """Add adapters to linear layers; exact as long as they are not trained.

    Attributes:
        rank: width of the thin matrices.
    """

    RECORD: ClassVar[str] = "edgec_low_rank"
    rank: int = 16
    name: str = "low_rank"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """The rank is positive."""
        if self.rank < 1:
            raise InputError(f"a rank of {self.rank} is not possible", self.name, fix="use 1 or more", code="E501")

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Add an adapter to every weight that a linear layer reads, for all its readers."""
        parameters = (parameter_of(linear.args[1]) for linear in nodes_of(graph, aten.linear.default))
        targets = tuple(dict.fromkeys(str(node.target) for node in parameters if node is not None))
        for target in targets:
            self._correct(graph, target)
        graph.meta[self.RECORD] = targets
        return program.interface

    def _correct(self, graph: GraphModule, target: str) -> None:
        readers = [node for node in graph.graph.nodes if node.op == "get_attr" and node.target == target]
        weight = matrix(graph, readers[0])
        tall, wide = _names(target)
        generator = torch.Generator().manual_seed(sum(map(ord, target)))
        down = torch.randn(self.rank, weight.shape[1], generator=generator) * weight.shape[1] ** -0.5
        for name, value in ((tall, torch.zeros(weight.shape[0], self.rank)), (wide, down)):
            set_parameter(graph, name, nn.Parameter(value))
        for node in readers:
            with graph.graph.inserting_after(node):
                a = graph.graph.get_attr(tall)
            with graph.graph.inserting_after(a):
                b = graph.graph.get_attr(wide)
            with graph.graph.inserting_after(b):
                merged = graph.graph.call_function(add_correction, (node, a, b))
            merged.meta = dict(node.meta)
            node.replace_all_uses_with(merged, delete_user_cb=lambda user, keep=merged: user is not keep)

    def ensures(self, program: Program) -> None:
        """Every recorded weight is read with its correction only."""
        for node in program.graph.graph.nodes:
            if node.op == "get_attr" and node.target in program.graph.meta[self.RECORD]:
                assert all(user.target is add_correction for user in node.users)


def add_correction(weight: Tensor, tall: Tensor, wide: Tensor) -> Tensor:
    """``weight`` [N, K] + ``tall`` [N, r] x ``wide`` [r, K], float32."""
    return weight.float() + tall @ wide


def merge_weight(graph: GraphModule, target: str) -> Tensor:
    """A parameter's value, with its adapter added if it has one."""
    value: Tensor = attribute(graph, target).detach()
    if target not in graph.meta.get(LowRank.RECORD, ()):
        return value
    return add_correction(value, *(attribute(graph, name).detach() for name in _names(target)))


def _names(target: str) -> tuple[str, str]:
    return f"{target}_low_rank_tall", f"{target}_low_rank_wide"
