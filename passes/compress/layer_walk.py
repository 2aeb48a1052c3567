"""Visit linear layers in order with the curvature of their inputs, each after the layers before it were changed.

All calls go through the graph together, node by node, so that at any time only the values between two layers are held
(tokens x width), and one layer's second moment: memory does not grow with the model's depth.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from torch import Tensor
from torch.fx import Node

from edgec.errors import InputError
from edgec.ir.graph_run import visit_layers
from edgec.ir.program import Program
from edgec.passes.compress.rounding.gptq import Curvature
from edgec.passes.graph.activation_statistics import restored_states
from edgec.passes.graph.calibration import Calibration

LayerVisit = Callable[[Node, Curvature | None], None]


def walk_layers(
    program: Program, calibration: Calibration, layers: Collection[Node], visit: LayerVisit, where: str
) -> None:
    """Visit every layer once; those that the calls do not reach, or reach with too few inputs, without a curvature.

    Args:
        program: the graph that ``visit`` rewrites while it runs; its states are put back at the end.
        calibration: text or examples.
        layers: linear layers, in order.
        visit: given a layer and the curvature of its inputs; may put another matrix into the layer's place.
        where: the pass, for the error message.

    Raises:
        InputError: E520, the calls cannot go through the graph together.
    """
    left, last = dict.fromkeys(layers), _LastInput()

    def visit_with_curvature(layer: Node, inputs: Tensor) -> None:
        if layer in left:
            left.pop(layer)
            visit(layer, last.curvature(layer, inputs))

    observe_layers(program, calibration, visit_with_curvature, where)
    for layer in left:
        visit(layer, None)


def observe_layers(
    program: Program, calibration: Calibration, visit: Callable[[Node, Tensor], None], where: str
) -> None:
    """Show every linear layer its inputs, float32 [rows, K], on all of the calibration; states are put back.

    Raises:
        InputError: E520, the calls cannot go through the graph together.
    """
    with restored_states(program):
        walked = visit_layers(program, list(calibration.calls(program)), visit)
    if not walked:
        raise InputError(
            what="this model cannot be calibrated layer by layer",
            where=where,
            why="layers that share the keys of a sliding window read them after later tokens have overwritten some",
            fix='set algorithm = "mse" and leave prepare out: they need no calibration',
            code="E520",
        )


@dataclass
class _LastInput:
    """The curvature of the input seen last, which neighbours (queries, keys and values) share."""

    source: object = None
    measured: Curvature | None = None

    def curvature(self, layer: Node, inputs: Tensor) -> Curvature | None:
        """The curvature of a layer's inputs; None where they are fewer than its width, too few to tell directions."""
        if layer.args[0] is not self.source:
            enough = len(inputs) >= inputs.shape[1]
            self.source, self.measured = layer.args[0], Curvature.of(inputs) if enough else None
        return self.measured
