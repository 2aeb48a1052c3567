"""Make a share of the weights zero: any of a row, or two of every four.

    x -> linear(W)      ==>      x -> linear(W with zeros)

Legality: W is a parameter of a linear layer and its width is a multiple of the block; the lm_head, whose
rows stand for single tokens, stays whole. Approximate. A zero is stored like any other value except in Core ML's sparse
tables (``sparsity`` in a recipe, a bit for each zero); no kernel of XNNPACK, Core AI or llama.cpp skips it. Rounding
that follows keeps zeros as long as it rounds to the nearest (``rtn``, ``mse``, ``hqq``).
Measured: docs/quantisation.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attributes import attribute
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import parameter_of
from edgec.passes.compress.layer_walk import observe_layers
from edgec.passes.compress.rounding.sparse_weights import METHODS
from edgec.passes.contract import nodes_of
from edgec.passes.graph.calibration import Calibration, require_calibration
from edgec.passes.graph.weight_edits import constant, edit
from edgec.passes.prefill.last_logits import lm_head_linear

aten = torch.ops.aten
PRUNED = "edgec_pruned"


@dataclass(frozen=True)
class Prune:
    """Make a share of the weights of linear layers zero; approximate.

    Attributes:
        sparsity: share of each row that becomes zero, 0..1.
        block: neighbours of which each loses that share (4 with 0.5: 2:4); 0 for the whole row.
        method: ``magnitude``, ``wanda`` or ``sparsegpt`` (see sparse_weights).
        calibration: what the graph is run on, layer by layer.
    """

    sparsity: float = 0.5
    block: int = 0
    method: str = "sparsegpt"
    calibration: Calibration = field(default_factory=Calibration)
    name: str = "prune"
    effect: Effect = Effect.APPROXIMATE

    def requires(self, program: Program) -> None:
        """The method is known, the share drops some weight, and there is calibration text."""
        if self.method not in METHODS or not 0 < self.sparsity < 1 or self.block < 0:
            raise InputError(
                what=f"{self.method!r} with a sparsity of {self.sparsity} in blocks of {self.block} is not valid",
                where=self.name,
                fix=f"use one of {', '.join(METHODS)}, a share between 0 and 1, and a block of 0 or more",
                code="E524",
            )
        widths = [_width(program.graph, layer) for layer in _layers(program.graph)]
        dropped = [round(self.sparsity * (self.block or width)) for width in widths if width % (self.block or 1) == 0]
        if not any(dropped):
            raise InputError(
                what=f"no weight would be pruned by {self.sparsity} of blocks of {self.block}",
                where=self.name,
                why=f"a share of a block rounds to no weight, or no width is a multiple ({sorted(set(widths))})",
                fix="use a larger share, or a block that divides the widths",
                code="E524",
            )
        require_calibration(self.calibration, self.name)

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Prune one layer after the other, each on the inputs from pruned ones; a second time changes nothing."""
        if graph.meta.get(PRUNED):
            return program.interface
        lm_head = lm_head_linear(graph) if program.spec else None

        def prune(layer: Node, inputs: Tensor) -> None:
            if layer is lm_head or parameter_of(layer.args[1]) is None:
                return
            weight = constant(graph, layer.args[1])  # type: ignore[arg-type]
            if self.block and weight.shape[1] % self.block:
                return
            pruned = METHODS[self.method](weight, inputs, self.sparsity, self.block)
            edit(graph, layer, 1, lambda _: pruned)

        observe_layers(replace(program, graph=graph), self.calibration, prune, self.name)
        graph.meta[PRUNED] = f"{self.method}, {self.sparsity:.0%} of {self.block or 'a row'}"
        return program.interface

    def ensures(self, program: Program) -> None:
        """Some linear layer holds about the asked share of zeros."""
        weights = [constant(program.graph, n.args[1]) for n in _layers(program.graph)]  # type: ignore[arg-type]
        assert not weights or max(float((w == 0).float().mean()) for w in weights) >= 0.9 * self.sparsity


def _width(graph: GraphModule, layer: Node) -> int:
    parameter = parameter_of(layer.args[1])
    assert parameter is not None
    return int(attribute(graph, str(parameter.target)).shape[1])


def _layers(graph: GraphModule) -> list[Node]:
    return [n for n in nodes_of(graph, aten.linear.default) if parameter_of(n.args[1]) is not None]
