"""Models in fixed point: ranges are measured on a text or on examples, and the parity ladder has one more rung.

graphs -> fixed point on this CPU           what fixed point costs: gated for trained models
fixed point on this CPU -> artifact         what the vendor's compiler changes: gated
float model -> artifact                     everything together: gated for trained models
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from edgec.backends.qnn.context import execute_on_cpu, layer_values
from edgec.backends.qnn.function import open_function, open_function_on_cpu
from edgec.bundle.findings import Rung
from edgec.exporter.parity.ladder import Stage, accepting, lowering_rung, quality_rung
from edgec.exporter.parity.outputs import joined_outputs, worst_call_rung
from edgec.exporter.progress import Progress
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.decoder import artifact_quality, quality_budget
from edgec.exporter.stages.module_measure import module_budget
from edgec.exporter.stages.static_decoder import StaticDecoderStages
from edgec.exporter.stages.static_module import StaticModuleStages
from edgec.ir.program import Effect

FIXED, ARTIFACT = "fixed point", "artifact"
# Hexagon rounds sums to 16 bits in its own way. Measured on examples/tiny-stories: KL 0.0006 nats at 8 bits and 0.0002
# at 4; none of 35 tokens changed.
EMULATED = {"kl_mean": 1e-2, "top1_agreement": 0.95}
# Measured at 8 bits: 1.6 % of the largest output on a two-layer ViT, 0.14 % on a two-layer BERT.
EMULATED_MODULE = {"max_relative": 0.05}


@dataclass
class CalibratedDecoderStages(StaticDecoderStages):
    """The stages of a decoder for a backend that computes in fixed point."""

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Compare the graphs, the fixed-point models on this CPU, and the artifact in the vendor's emulation."""
        request = self.request
        final, reference = Stage(rewrite.final, logits["final"]), Stage(rewrite.reference, logits["reference"])
        fixed = Stage(FIXED, self._run(execute_on_cpu(artifact)), Effect.APPROXIMATE)
        after = Stage(ARTIFACT, self._run(self.backend.execute(artifact)), Effect.EXACT)
        budget, trained, further = quality_budget(request.recipe), request.source.trained, rewrite.further
        text = "the calibration text" if request.calibration else "the ladder's own text"
        ranged = quality_rung(final, fixed, budget, gated=trained, note=f"ranges calibrated on {text}")
        emulated = lowering_rung(
            fixed, after, accepting(EMULATED, request.recipe), rounded=True, note=self.backend.EXECUTED_BY
        )
        return [
            ranged.model_copy(update={"values": layer_values(artifact)}),
            emulated,
            artifact_quality(reference, final, after, further, request),
        ]


@dataclass
class CalibratedModuleStages(StaticModuleStages):
    """The stages of a non-decoder model in fixed point; ranges are measured on what it is judged on."""

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Compare the graph, the fixed-point model on this CPU, and the artifact in the vendor's emulation."""
        request = self.request
        final, reference = Stage(rewrite.final, logits["final"]), Stage(rewrite.reference, logits["reference"])
        outputs = self.executed(open_function_on_cpu(artifact))
        fixed = Stage(FIXED, joined_outputs(outputs), Effect.APPROXIMATE)
        after = Stage(ARTIFACT, joined_outputs(self.executed(open_function(artifact))))
        quality = partial(quality_rung, budget=module_budget(request.recipe))
        trained, forms = request.source.trained, self.executed_forms(artifact, outputs[0])
        ranged = partial(quality, gated=trained, note="ranges measured on the inputs that the model is judged on")
        budget = accepting(EMULATED_MODULE, request.recipe)
        lowering = partial(lowering_rung, budget=budget, rounded=True, note=self.backend.EXECUTED_BY)
        whole = partial(quality, gated=trained)
        pairs = ((final, fixed, ranged), (fixed, after, lowering), (reference, after, whole))
        first, *rest = (worst_call_rung(one, other, forms, compare) for one, other, compare in pairs)
        return [first.model_copy(update={"values": layer_values(artifact)}), *rest]
