"""What rounding one layer costs the model, to second order, with nothing else rounded.

With y the outputs of a layer, a change dW of its weights moves the model's predictions by a divergence of about
1/2 E[(g . dW x)^2], where g is the gradient of the log-likelihood of a token drawn from the model's own prediction (the
Fisher information). With inputs and gradients taken as independent, that is 1/2 sum over rows r of E[g_r^2]
(dW M dW^T)_rr, M being E[x x^T]. One backward pass gives E[g^2] of every layer, one walk through the layers
gives their M.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Interpreter, Node

from edgec.exporter.bit_search.allocation import WidthChoice
from edgec.ir.graph_run import first_output
from edgec.ir.program import Program
from edgec.ir.quantized_form import parameter_name, parameter_of
from edgec.ir.weight_scheme import WeightScheme, stored_bytes
from edgec.passes.compress.layer_walk import observe_layers
from edgec.passes.compress.rounding.weight_grid import quantize_weight, without_inputs
from edgec.passes.compress.rounding.weight_tables import tabulate
from edgec.passes.graph.calibration import Calibration
from edgec.passes.graph.weight_edits import constant

aten = torch.ops.aten
Schemes = Callable[[str, tuple[int, int]], Sequence[WeightScheme]]


def mean_square_gradients(program: Program, calibration: Calibration, seed: int = 0) -> Mapping[str, Tensor]:
    """The mean square, over tokens, of the log-likelihood's gradient at each linear layer's outputs.

    Args:
        program: an unfused decoder, tokens and positions in, logits of every position out.
        calibration: text.
        seed: seed of the tokens drawn from the model's predictions.

    Returns:
        One float32 [N] per layer, by the name of its parameter.
    """
    recorder = _Gradients(program.graph)
    tokens = run_backward(recorder, program, calibration, seed)
    return {name: (total / tokens).float() for name, total in recorder.totals.items()}


def run_backward(recorder: Interpreter, program: Program, text: Calibration, seed: int) -> int:
    """Differentiate the log-likelihood of tokens drawn from the model's own predictions; returns how many there were.

    Args:
        recorder: runs the program's graph, and keeps what it wants of the gradients.
        program: an unfused decoder, tokens and positions in, logits of every position out.
        text: what it is run on.
        seed: of the tokens that are drawn.
    """
    drawn, tokens = torch.Generator().manual_seed(seed), 0
    for inputs in text.calls(program):
        with torch.enable_grad():
            outputs: Any = recorder.run(*inputs)
            logits = first_output(outputs)[0]
            labels = torch.multinomial(logits.detach().softmax(-1), 1, generator=drawn)[:, 0]
            torch.nn.functional.cross_entropy(logits, labels, reduction="sum").backward()
        tokens += len(labels)
    return tokens


class _Gradients(Interpreter):
    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__(graph)
        self.totals: dict[str, Tensor] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.target is aten.embedding.default:
            return result.detach().requires_grad_()
        parameter = parameter_of(n.args[1]) if n.target is aten.linear.default else None
        if parameter is not None and result.requires_grad:
            result.register_hook(lambda gradient: self._add(parameter_name(parameter), gradient))
        return result

    def _add(self, name: str, gradient: Tensor) -> None:
        squares = gradient.detach().flatten(0, -2).square().sum(0).double()
        self.totals[name] = self.totals[name] + squares if name in self.totals else squares


def measure_choices(
    program: Program,
    calibration: Calibration,
    fisher: Mapping[str, Tensor],
    schemes: Schemes,
    algorithm: str,
) -> dict[str, list[WidthChoice]]:
    """Measure what every width of every layer costs.

    Args:
        program: as for ``mean_square_gradients``.
        calibration: text.
        fisher: the result of ``mean_square_gradients``.
        schemes: the widths to consider for a parameter's name and shape; none leaves the layer out.
        algorithm: how integers are chosen.
    """
    choices: dict[str, list[WidthChoice]] = {}

    def measure_layer(layer: Node, inputs: Tensor) -> None:
        name = parameter_name(parameter_of(layer.args[1]))  # type: ignore[arg-type]
        weight = constant(program.graph, layer.args[1])  # type: ignore[arg-type]
        shape = (weight.shape[0], weight.shape[1])
        wanted = schemes(name, shape)
        moment = inputs.T @ inputs / len(inputs) if wanted else None
        for scheme in wanted:
            assert moment is not None
            change = _round(weight, scheme, algorithm, moment.diagonal()) - weight
            loss = 0.5 * float((((change @ moment) * change).sum(1) * fisher[name]).sum())
            choices.setdefault(name, []).append(WidthChoice(scheme, 8.0 * stored_bytes(shape, scheme), loss))

    observe_layers(program, calibration, measure_layer, "--target-bits")
    return choices


def _round(weight: Tensor, scheme: WeightScheme, algorithm: str, moments: Tensor) -> Tensor:
    if scheme.is_table:
        return tabulate(weight, scheme, "", moments).dequantize()
    return quantize_weight(weight, scheme, without_inputs(algorithm)).dequantize()
