"""The stages of a decoder in fixed point: ranges from a text, and one rung more in the parity ladder.

graphs -> fixed point on this CPU           how much the numbers lose: reported
fixed point on this CPU -> artifact         what the vendor's compiler makes of it: gated
float model -> artifact                     the whole: gated for trained models
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.backends.qnn.context import execute_on_cpu
from edgec.bundle.manifest import Rung
from edgec.exporter.parity.ladder import Stage, lowering_rung, quality_rung
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.decoder import quality_budget
from edgec.exporter.stages.static_stages import StaticDecoderStages
from edgec.ir.program import Effect
from edgec.ir.static_methods import Methods, run_static

FIXED, ARTIFACT = "fixed point", "artifact"
# Hexagon rounds sums to 16 bits in its own way. Measured on examples/tiny-llama: KL 0.0016 nats at 8 bits and 0.0023 at
# 4; none and one of 33 tokens changed.
EMULATED = {"kl_mean": 1e-2, "top1_agreement": 0.95}


@dataclass
class CalibratedDecoderStages(StaticDecoderStages):
    """Those of static methods, with the rungs of fixed point."""

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Any]) -> list[Rung]:
        """The graphs, the fixed-point models on this CPU, and the artifact in the vendor's emulation."""
        request = self.request
        final, reference = Stage(rewrite.final, logits["final"]), Stage(rewrite.reference, logits["reference"])
        fixed = self._run(FIXED, execute_on_cpu(artifact), Effect.APPROXIMATE)
        after = self._run(ARTIFACT, self.backend.execute(artifact), Effect.EXACT)
        budget, trained = quality_budget(request.recipe), request.source.trained
        text = "the same text" if not request.calibration else "a text of its own"
        return [
            quality_rung(final, fixed, budget, gated=False, note=f"ranges calibrated on {text}"),
            lowering_rung(fixed, after, EMULATED, rounded=True, note=self.backend.EXECUTED_BY),
            quality_rung(reference, after, budget, gated=trained),
        ]

    def _run(self, name: str, methods: Methods, effect: Effect) -> Stage:
        probe = self.request.probe
        return Stage(name, run_static(methods, probe.tokens, probe.plan), effect)
