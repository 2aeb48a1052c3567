"""A model that is no decoder in fixed point: ranges from its example inputs, and one rung more in the parity ladder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from edgec.backends.qnn.function import open_function, open_function_on_cpu
from edgec.bundle.manifest import Rung
from edgec.exporter.parity.ladder import Stage, lowering_rung, quality_rung
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.module import by_output, flat, quality_budget, sizes_of
from edgec.exporter.stages.static_module import StaticModuleStages
from edgec.ir.program import Effect

FIXED, ARTIFACT = "fixed point", "artifact"
# Measured at 8 bits: 1.6 % of the largest output on a two-layer ViT, 0.14 % on a two-layer BERT.
EMULATED_MODULE = {"max_relative": 0.05}


@dataclass
class CalibratedModuleStages(StaticModuleStages):
    """Those of static modules, with the rungs of fixed point."""

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor]) -> list[Rung]:
        """The graph, the fixed-point model on this CPU, and the artifact in the vendor's emulation."""
        request, given = self.request, self._given()
        final, reference = Stage(rewrite.final, logits["final"]), Stage(rewrite.reference, logits["reference"])
        outputs = tuple(open_function_on_cpu(artifact)(given))
        fixed = Stage(FIXED, flat(outputs), Effect.APPROXIMATE)
        after = Stage(ARTIFACT, flat(tuple(open_function(artifact)(given))))
        quality = partial(quality_rung, budget=quality_budget(request))
        told = partial(quality, gated=False, note="ranges measured on the example inputs")
        same = partial(lowering_rung, budget=EMULATED_MODULE, rounded=True, note=self.backend.EXECUTED_BY)
        whole = partial(quality, gated=request.source.trained)
        pairs = ((final, fixed, told), (fixed, after, same), (reference, after, whole))
        return [by_output(one, other, sizes_of(outputs), how) for one, other, how in pairs]
