"""What each width of each linear layer would cost a model, cheaply: one backward pass and one walk.

    1/2 sum over rows r and columns k of  dW_rk^2  E[g_r^2] / E[|g|^2]  E[|g|^2 x_k^2]

As ``sensitivity.py``, but inputs and gradients are not independent: each token's inputs count as much as the token's
own gradient |g|^2. Trained models have activations of thousands at their first token, which no later token depends on:
taken apart, ``down_proj`` made 72 % of the expected loss of SmolLM2-135M, and so 43 %. Only diagonals are kept, and
integers are rounded to the nearest: the result is scaled to a divergence that was measured, so that only what layers
cost beside each other counts. A table of 2^b values moves a weight by about sqrt(3) pi / 2 x 4^-b of its row's mean
square (Panter and Dite 1951, for normally distributed values), which spares k-means of every matrix at every width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from edgec.exporter.bit_search.allocation import WidthChoice
from edgec.exporter.bit_search.sensitivity import run_backward
from edgec.ir.program import Program
from edgec.ir.quantized_form import parameter_name, parameter_of
from edgec.ir.weight_scheme import WeightScheme, stored_bytes
from edgec.passes.compress.layer_walk import observe_layers
from edgec.passes.compress.rounding.weight_grid import quantize_weight
from edgec.passes.graph.calibration import Calibration
from edgec.passes.graph.weight_edits import constant

SchemesOf = Callable[[str, tuple[int, int]], Sequence[WeightScheme]]
_TABLE_LOSS = sqrt(3) * pi / 2


def expected_losses(program: Program, text: Calibration, schemes: SchemesOf) -> dict[str, list[WidthChoice]]:
    """What every width of every layer costs, in units that agree among layers.

    Args:
        program: an unfused decoder in float, tokens and positions in, logits of every position out.
        text: what it is run on.
        schemes: the widths to consider for a parameter's name and shape, the present one first; none leaves it out.
    """
    gradients, found = token_gradients(program, text), dict[str, list[WidthChoice]]()

    def visit(layer: Node, inputs: Tensor) -> None:
        name = parameter_name(parameter_of(layer.args[1]))  # type: ignore[arg-type]
        weight = constant(program.graph, layer.args[1])  # type: ignore[arg-type]
        shape = (weight.shape[0], weight.shape[1])
        if wanted := schemes(name, shape):
            own = gradients[name]
            sizes = own.rows / own.rows.sum().clamp(min=1e-30), own.tokens @ inputs.square() / len(inputs)
            found[name] = [
                WidthChoice(each, 8.0 * stored_bytes(shape, each), _loss(weight.float(), each, *sizes))
                for each in wanted
            ]

    observe_layers(program, text, visit, "--max-kl")
    return found


@dataclass
class LayerGradients:
    """The log-likelihood's gradient at a layer's outputs, squared: summed over tokens [N], and over outputs [T]."""

    rows: Tensor
    tokens: Tensor


def token_gradients(program: Program, text: Calibration, seed: int = 0) -> dict[str, LayerGradients]:
    """The squares of each layer's gradients on a text, whose labels are drawn from the model's own predictions.

    Args:
        program: an unfused decoder, tokens and positions in, logits of every position out.
        text: what it is run on.
        seed: of the labels.
    """
    recorder = _Recorder(program.graph)
    run_backward(recorder, program, text, seed)
    return recorder.found


class _Recorder(Interpreter):
    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.found: dict[str, LayerGradients] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.target is torch.ops.aten.embedding.default:
            return result.detach().requires_grad_()
        parameter = parameter_of(n.args[1]) if n.target is torch.ops.aten.linear.default else None
        if parameter is not None and result.requires_grad:
            result.register_hook(lambda gradient: self._add(parameter_name(parameter), gradient))
        return result

    def _add(self, name: str, gradient: Tensor) -> None:
        squares = gradient.detach().flatten(0, -2).square()
        own = LayerGradients(squares.sum(0), squares.sum(1))
        if before := self.found.get(name):
            own = LayerGradients(before.rows + own.rows, torch.cat([before.tokens, own.tokens]))
        self.found[name] = own


def _loss(weight: Tensor, scheme: WeightScheme, gradients: Tensor, moments: Tensor) -> float:
    """Half the changes' squares, by the share of a row in the gradients and the weight of a column's inputs."""
    if scheme.is_table:
        change = weight.square().mean(1, keepdim=True) * _TABLE_LOSS * 4.0**-scheme.bits * torch.ones_like(weight)
    else:
        change = (quantize_weight(weight, scheme, "rtn").dequantize() - weight).square()
    return 0.5 * float(gradients @ (change @ moments))


def total(chosen: Mapping[str, WidthChoice]) -> float:
    """The expected loss of all layers."""
    return sum(choice.loss for choice in chosen.values())
