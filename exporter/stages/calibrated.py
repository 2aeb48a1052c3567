"""Models in fixed point: ranges are measured on a text or on examples, and the parity ladder has one more rung.

graphs -> fixed point on this CPU           what fixed point costs: gated for trained models
fixed point on this CPU -> artifact         what the vendor's compiler changes: gated
float model -> artifact                     everything together: gated for trained models

The vendor's emulation is slow: of a large decoder it executes the first calls alone, and at the positions after them
the fixed-point models stand for the artifact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
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
from edgec.ir.call_plan import Call
from edgec.ir.program import Effect
from edgec.ir.static_methods import run_static

FIXED, ARTIFACT = "fixed point", "artifact"
# Hexagon rounds sums to 16 bits in its own way. Measured on examples/tiny-stories: KL 0.0006 nats at 8 bits and 0.0002
# at 4; none of 35 tokens changed.
EMULATED = {"kl_mean": 1e-2, "top1_agreement": 0.95}
# Measured at 8 bits: 1.6 % of the largest output on a two-layer ViT, 0.14 % on a two-layer BERT.
EMULATED_MODULE = {"max_relative": 0.05}
LARGE_BYTES = 32 << 20
SINGLE_TOKENS = 6
"""How many single tokens of an artifact of ``LARGE_BYTES`` and more are emulated, after the chunks before them."""


@dataclass
class CalibratedDecoderStages(StaticDecoderStages):
    """The stages of a decoder for a backend that computes in fixed point."""

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Compare the graphs, the fixed-point models on this CPU, and the artifact in the vendor's emulation."""
        request = self.request
        final, reference = Stage(rewrite.final, logits["final"]), Stage(rewrite.reference, logits["reference"])
        fixed = Stage(FIXED, self._run(execute_on_cpu(artifact)), Effect.APPROXIMATE)
        calls = emulated_calls(request.probe.plan, _bytes(artifact))
        emulation = run_static(self.backend.execute(artifact), request.probe.tokens, calls)
        after = Stage(ARTIFACT, torch.cat([emulation, fixed.logits[len(calls) :]]), Effect.EXACT)
        budget, trained, further = quality_budget(request.recipe), request.source.trained, rewrite.further
        text = "the calibration text" if request.calibration else "the ladder's own text"
        ranged = quality_rung(final, fixed, budget, gated=trained, note=f"ranges calibrated on {text}")
        executed = replace(fixed, logits=fixed.logits[: len(calls)]), replace(after, logits=emulation)
        note = f"{self.backend.EXECUTED_BY}{_share(calls, request.probe.plan)}"
        emulated = lowering_rung(*executed, accepting(EMULATED, request.recipe), rounded=True, note=note)
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


def emulated_calls(plan: Sequence[Call], artifact_bytes: int) -> Sequence[Call]:
    """The first calls of a probe that an emulation executes: all of a small artifact's.

    Args:
        plan: the probe's: chunks, a part of one, single tokens.
        artifact_bytes: of the artifact; an emulated call takes a time in proportion.
    """
    if artifact_bytes < LARGE_BYTES:
        return plan
    chunks = sum(call.size > 1 for call in plan)
    return plan[: chunks + SINGLE_TOKENS]


def _share(calls: Sequence[Call], plan: Sequence[Call]) -> str:
    return "" if len(calls) == len(plan) else f", the first {len(calls)} of {len(plan)} calls"


def _bytes(artifact: Path) -> int:
    return sum(file.stat().st_size for file in artifact.rglob("*") if file.is_file())
