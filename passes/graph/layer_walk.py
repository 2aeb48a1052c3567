"""Visit linear layers in order with the curvature of their inputs, on a graph whose earlier layers are changed already.

All calls go through the graph together, node by node, so that at any time only the values between two layers are held
(tokens x width), and one layer's second moment: memory does not grow with the model's depth.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from torch import Tensor
from torch.fx import Node

from edgec.errors import InputError
from edgec.ir.attributes import attribute
from edgec.ir.graph_run import visit_layers
from edgec.ir.program import Program
from edgec.passes.compress.rounding.gptq import Curvature
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
    left, last = dict.fromkeys(layers), _Last()

    def seen(layer: Node, inputs: Tensor) -> None:
        if layer in left:
            left.pop(layer)
            visit(layer, last.curvature(layer, inputs))

    observe_layers(program, calibration, seen, where)
    for layer in left:
        visit(layer, None)


def observe_layers(
    program: Program, calibration: Calibration, seen: Callable[[Node, Tensor], None], where: str
) -> None:
    """Show every linear layer its inputs, float32 [rows, K], on all of the calibration; states are put back.

    Raises:
        InputError: E520, the calls cannot go through the graph together.
    """
    states = [attribute(program.graph, state.buffer) for state in program.interface.states]
    before = [value.clone() for value in states]
    walked = visit_layers(program, list(calibration.calls(program)), seen)
    for value, old in zip(states, before, strict=True):
        value.copy_(old)
    if not walked:
        raise InputError(
            what="this model cannot be calibrated layer by layer",
            where=where,
            why="layers that share the keys of a sliding window read them after others have turned the window on",
            fix='set algorithm = "mse" and leave prepare out: they need no calibration',
            code="E520",
        )


@dataclass
class _Last:
    """The curvature of the last input: neighbours (queries, keys and values) read the same."""

    source: object = None
    found: Curvature | None = None

    def curvature(self, layer: Node, inputs: Tensor) -> Curvature | None:
        """None where a layer sees fewer inputs than it is wide: there is nothing to tell directions apart."""
        if layer.args[0] is not self.source:
            enough = len(inputs) >= inputs.shape[1]
            self.source, self.found = layer.args[0], Curvature.of(inputs) if enough else None
        return self.found
