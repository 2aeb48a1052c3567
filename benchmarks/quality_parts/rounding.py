"""Ways of rounding one matrix: from its weights and inputs to the stored values and their size.

The functions are those that edgec's passes call. Widths that an export does not store (3-bit integers, ternary ones,
floats of 8 bits) are rounded by the same rules here, so that the table compares algorithms and not containers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.fx import Node

    from benchmarks.quality_parts.subjects import Subject
    from edgec.ir.program import Program
    from edgec.ir.weight_scheme import WeightScheme
    from edgec.passes.compress.rounding.gptq import Curvature


@dataclass(frozen=True)
class Stored:
    """A matrix as it is read back, float32 [N, K], and its size in bits."""

    values: Tensor
    bits: float


Way = Callable[["Tensor", "Tensor"], Stored]
"""A function of a weight [N, K] and the layer's inputs [rows, K]."""


def rounded(program: Program, subject: Subject, way: Way) -> tuple[Program, float]:
    """Round every linear layer except the lm_head, in order, each on the inputs that the rounded ones before it give.

    Returns:
        The changed program, and bits per weight.
    """
    from dataclasses import replace

    from edgec.passes.compress.layer_walk import observe_layers
    from edgec.passes.contract import clone
    from edgec.passes.graph.weight_edits import constant, edit
    from edgec.passes.prefill.last_logits import lm_head_linear

    changed = replace(program, graph=clone(program.graph))
    vocabulary, sizes = lm_head_linear(changed.graph), list[tuple[float, int]]()

    def visit(layer: Node, inputs: Tensor) -> None:
        if layer is vocabulary:
            return
        weight = constant(changed.graph, layer.args[1])  # type: ignore[arg-type]
        stored = way(weight, inputs)
        sizes.append((stored.bits, weight.numel()))
        edit(changed.graph, layer, 1, lambda _: stored.values)

    observe_layers(changed, subject.calibration, visit, "quality")
    return changed, sum(bits for bits, _ in sizes) / sum(count for _, count in sizes)


def fitting(scheme: WeightScheme, width: int) -> WeightScheme:
    """The scheme, or a scale per channel where its groups do not divide the width."""
    from dataclasses import replace

    return scheme if width % scheme.block(width) == 0 else replace(scheme, group_size=0)


def integers(scheme: WeightScheme, algorithm: str) -> Way:
    """Round to integers by ``rtn``, ``hqq``, ``mse`` or ``gptq``."""

    def way(weight: Tensor, inputs: Tensor) -> Stored:
        from edgec.ir.weight_scheme import stored_bytes
        from edgec.passes.compress.rounding.gptq import gptq_integers
        from edgec.passes.compress.rounding.weight_grid import quantize_weight

        used = fitting(scheme, weight.shape[1])
        size = 8.0 * stored_bytes((weight.shape[0], weight.shape[1]), used)
        if algorithm == "gptq":
            return Stored(gptq_integers(weight, used, curvature(inputs)).dequantize(), size)
        return Stored(quantize_weight(weight, used, algorithm).dequantize(), size)

    return way


def tables(scheme: WeightScheme, algorithm: str) -> Way:
    """Round to look-up tables by ``k-means``, ``weighted`` k-means or ``gptq``."""

    def way(weight: Tensor, inputs: Tensor) -> Stored:
        from edgec.ir.weight_scheme import fit_tables, stored_bytes
        from edgec.passes.compress.rounding.gptq import gptq_table
        from edgec.passes.compress.rounding.weight_tables import tabulate

        used, _ = fit_tables(scheme, weight.shape[0])
        size = 8.0 * stored_bytes((weight.shape[0], weight.shape[1]), used)
        if algorithm == "gptq":
            return Stored(gptq_table(weight, used, curvature(inputs)).dequantize(), size)
        moments = inputs.square().mean(0) if algorithm == "weighted" else None
        return Stored(tabulate(weight, used, "", moments).dequantize(), size)

    return way


def ternary(group: int, algorithm: str) -> Way:
    """Round to -1, 0 and 1 x a scale: mean magnitude (``rtn``, as BitNet b1.58), least squares (``mse``), ``gptq``."""

    def way(weight: Tensor, inputs: Tensor) -> Stored:
        import math

        from edgec.passes.compress.rounding.gptq import ScaleGrid, assign

        rows, width = weight.shape
        size = group if width % group == 0 else width
        parts = weight.view(rows, -1, size)
        scale = parts.abs().mean(-1).clamp_min(1e-9) if algorithm == "rtn" else _ternary_scale(parts)
        grid = ScaleGrid(scale.bfloat16().float(), size, (-1, 1))
        if algorithm == "gptq":
            codes = assign(weight, grid, curvature(inputs)).view(parts.shape)
        else:
            codes = (parts / grid.scale[..., None]).round().clamp(-1, 1)
        values = (codes * grid.scale[..., None]).view(rows, width)
        return Stored(values, weight.numel() * math.log2(3) + 16.0 * scale.numel())

    return way


def _ternary_scale(parts: Tensor) -> Tensor:
    """The scale with the least squared error: with the n largest magnitudes kept, their mean; all n are compared."""
    import torch

    largest = parts.abs().sort(-1, descending=True).values.cumsum(-1)
    count = torch.arange(1, parts.shape[-1] + 1)
    best = (largest.square() / count).argmax(-1, keepdim=True)
    return (largest.gather(-1, best)[..., 0] / (best[..., 0] + 1)).clamp_min(1e-9)


def curvature(inputs: Tensor) -> Curvature:
    """The curvature of a layer's inputs."""
    from edgec.passes.compress.rounding.gptq import Curvature

    return Curvature.of(inputs)
