"""Weights and inputs rounded as in the CPU's artifacts, by the passes that an export runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.quality_parts.measure import Reference, Row

if TYPE_CHECKING:
    from edgec.ir.program import Program

PREPARED = ((), ("smooth",), ("awq",), ("rotate",))


def rows(reference: Reference) -> Iterator[Row]:
    """Measure 8- and 4-bit weights with 8-bit inputs, which have a scale per token."""
    from edgec.exporter.recipes.passes import preparing_passes
    from edgec.exporter.recipes.recipe import Recipe
    from edgec.ir.weight_scheme import WeightScheme
    from edgec.passes.compress.quantize import Quantize
    from edgec.passes.contract import run_passes

    subject = reference.subject
    for scheme in (WeightScheme(8, 0), WeightScheme(4, 32, scale_bits=16)):
        for algorithm in ("rtn", "gptq"):
            for prepare in PREPARED:
                recipe = Recipe("", weights=scheme, prepare=prepare)
                rounding = Quantize(default=scheme, algorithm=algorithm, calibration=subject.calibration)
                changed = run_passes(subject.program, [*preparing_passes(recipe, subject.calibration), rounding])
                name = " + ".join([*prepare, algorithm]).upper()
                yield reference.row(changed, f"{scheme}, 8-bit inputs", name, _bits(changed))


def _bits(program: Program) -> float:
    from edgec.ir.quantized_form import decisions_of

    used = [d for d in decisions_of(program.graph) if d.used is not None]
    return 8 * sum(d.bytes for d in used) / sum(d.shape[0] * d.shape[1] for d in used)
