"""What each width of each linear layer would cost a model, cheaply: one backward pass and one walk.

    1/2 sum over rows r and columns k of  E[g_r^2] E[x_k^2] dW_rk^2

As ``sensitivity.py``, with the inputs' second moments on their diagonal only, and integers rounded to the nearest:
the result is scaled to a divergence that was measured, so that only what layers cost beside each other counts. A table
of 2^b values moves a weight by about sqrt(3) pi / 2 x 4^-b of its row's mean square (Panter and Dite 1951, for normally
distributed values), which spares k-means of every matrix at every width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import pi, sqrt

import torch
from torch import Tensor
from torch.fx import Node

from edgec.exporter.bit_search.allocation import WidthChoice
from edgec.exporter.bit_search.sensitivity import mean_square_gradients
from edgec.ir.program import Program
from edgec.ir.quantized_form import parameter_name, parameter_of
from edgec.ir.weight_scheme import WeightScheme, stored_bytes
from edgec.passes.compress.rounding.weight_grid import quantize_weight
from edgec.passes.graph.calibration import Calibration
from edgec.passes.graph.layer_walk import observe_layers
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
    fisher, found = mean_square_gradients(program, text), dict[str, list[WidthChoice]]()

    def visit(layer: Node, inputs: Tensor) -> None:
        name = parameter_name(parameter_of(layer.args[1]))  # type: ignore[arg-type]
        weight = constant(program.graph, layer.args[1])  # type: ignore[arg-type]
        shape = (weight.shape[0], weight.shape[1])
        if wanted := schemes(name, shape):
            sizes = fisher[name], inputs.square().mean(0)
            found[name] = [
                WidthChoice(each, 8.0 * stored_bytes(shape, each), _loss(weight.float(), each, *sizes))
                for each in wanted
            ]

    observe_layers(program, text, visit, "--max-kl")
    return found


def _loss(weight: Tensor, scheme: WeightScheme, gradients: Tensor, moments: Tensor) -> float:
    if scheme.is_table:
        change = weight.square().mean(1, keepdim=True) * _TABLE_LOSS * 4.0**-scheme.bits * torch.ones_like(weight)
    else:
        change = (quantize_weight(weight, scheme, "rtn").dequantize() - weight).square()
    return 0.5 * float(gradients @ (change @ moments))


def total(chosen: Mapping[str, WidthChoice]) -> float:
    """The expected loss of all layers."""
    return sum(choice.loss for choice in chosen.values())
