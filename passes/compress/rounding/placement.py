"""Place the integers, scales and zero points of a parameter where the graph reads them."""

from __future__ import annotations

import torchao.quantization.quant_primitives  # noqa: F401  (registers torch.ops.torchao)
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import set_buffer
from edgec.ir.quantized_form import decisions_of, matrix
from edgec.ir.weight_decision import Decision
from edgec.ir.weight_scheme import BALANCED_SET
from edgec.passes.compress.rounding.gptq import Curvature, gptq_balanced, gptq_integers
from edgec.passes.compress.rounding.learned_grids import LEARNED, learned_scale, on_learned_grid
from edgec.passes.compress.rounding.stored_integers import AS_STORED, stored_integers
from edgec.passes.compress.rounding.weight_grid import QuantizedWeight, quantize_weight
from edgec.passes.compress.rounding.weight_tables import balanced_integers


def place_integers(
    graph: GraphModule,
    parameter: Node,
    decision: Decision,
    algorithm: str,
    curvature: Curvature | None = None,
    moments: Tensor | None = None,
) -> Decision:
    """Register integers, scales and zero points (or minimums) of a parameter: learned, stored or rounded now.

    Those of a tied matrix of the same scheme serve both.

    Args:
        graph: where they are registered.
        parameter: the float matrix.
        decision: how it is stored.
        algorithm: how scales are chosen.
        curvature: of the layer's inputs, for the algorithms that need it.
        moments: mean square of each of them, float32 [K], where nothing more is known.

    Raises:
        InputError: E173, the weight holds NaN or infinity; E174, the group does not divide its width.
    """
    stem = f"{parameter.target}_embedding" if decision.role == "embedding" else str(parameter.target)
    assert decision.used is not None
    stored = bool(decision.used.stored)
    learned = None if stored else learned_scale(graph, decision)
    algorithm = AS_STORED if stored else algorithm if learned is None else LEARNED
    beside = "zero_point" if decision.used.symmetric else "minimum"
    decision = decision.placed((f"{stem}_int", f"{stem}_scale", f"{stem}_{beside}"), algorithm)
    twin = next((earlier for earlier in decisions_of(graph) if earlier.same_integers(decision)), None)
    if twin is not None:
        return decision.placed(twin.buffers, algorithm)
    if stored:
        grid = stored_integers(graph, decision)
    elif learned is not None:
        grid = on_learned_grid(matrix(graph, parameter), learned, decision)
    else:
        grid = _rounded(matrix(graph, parameter), decision, curvature, moments)
    for name, tensor in zip(decision.buffers, (grid.integers, grid.scale, grid.beside), strict=True):
        set_buffer(graph, name, tensor)
    return decision


def _rounded(
    weight: Tensor, decision: Decision, curvature: Curvature | None, moments: Tensor | None
) -> QuantizedWeight:
    """A weight on the grid that the decided algorithm chooses, by what is known of its inputs."""
    asked, used = decision.requested, decision.used
    assert asked is not None and used is not None
    if asked.kind == BALANCED_SET:
        if curvature is None:
            return balanced_integers(weight, asked, decision.name)
        return gptq_balanced(weight, asked, curvature, decision.name)
    if curvature is not None:
        return gptq_integers(weight, used, curvature, decision.name)
    return quantize_weight(weight, used, decision.algorithm.partition(",")[0], decision.name, moments)
