"""Models that are not decoders: capture, passes, lowering and comparison with static shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from edgec.bundle.manifest import Delegation, Fallback, Rung
from edgec.exporter.capture.module import capture_module
from edgec.exporter.parity import ladder
from edgec.exporter.parity.ladder import Stage, lowering_rung, quality_rung
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import passes_for, rounds_weights
from edgec.exporter.stages.compiled import (
    ARTIFACT,
    Facts,
    Rewrite,
    method_info,
    pass_info,
    save_facts,
    save_rewrite,
)
from edgec.exporter.stages.weight_facts import expected_bytes, require_rounded, weight_facts
from edgec.ir.program import Effect, Program
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, run_pass, run_passes
from edgec.passes.fuse.fuse_sdpa import FuseSdpa
from edgec.passes.static.decompose_attention import DecomposeAttention

if TYPE_CHECKING:
    from edgec.backends.xnnpack.static_lowering import StaticLowered
    from edgec.exporter.pipeline import Request

_REASON = "XNNPACK has no operator for it in this form; it runs on ExecuTorch's CPU kernels"


@dataclass
class ModuleStages:
    """The stages of a model without a KV cache."""

    request: Request
    program: Program | None = None
    inputs: tuple[Tensor, ...] = ()
    sizes: Sequence[int] = ()

    def passes(self) -> list[Pass]:
        """The passes of a module on a CPU, in order."""
        return [RemoveNoops(), FuseSdpa(), *passes_for(self.request.recipe), DecomposeAttention(), FoldConstants()]

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Reference, capture, passes; leaves rungs and outputs."""
        progress.enter("capture")
        model, program = self._capture()
        with torch.no_grad():
            outputs = model(*self.inputs)
        eager, self.sizes = Stage("eager module", flat(outputs)), sizes_of(outputs)
        before = reference = Stage("captured", self._run(program))
        rungs = [by_output(eager, before, self.sizes, lowering_rung)]
        progress.enter("rewrite")
        for rewrite in self.passes():
            program = run_pass(program, rewrite)
            after = Stage(rewrite.name, self._run(program), rewrite.effect)
            rungs.append(self._rung(before, reference, after))
            ladder.gate(rungs)
            before = after
        require_rounded(program)
        self.program = program
        names = Rewrite(rungs=rungs, reference=reference.name, final=before.name)
        save_rewrite(folder, names, {"final": before.logits, "reference": reference.logits})

    def _capture(self) -> tuple[nn.Module, Program]:
        factory = self.request.source.factory
        assert factory is not None
        model, self.inputs = factory()
        source = self.request.source
        return model, capture_module(model, self.inputs, source.name, source.input_names)

    def _run(self, program: Program) -> Tensor:
        with torch.no_grad():
            return flat(program.graph(*self.inputs))

    def _rung(self, before: Stage, reference: Stage, after: Stage) -> Rung:
        if after.effect is Effect.EXACT:
            return by_output(before, after, self.sizes, lowering_rung)
        how = partial(quality_rung, budget=quality_budget(self.request), gated=self.request.source.trained)
        return by_output(reference, after, self.sizes, how)

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the last graph; leaves the artifact and its facts."""
        from edgec.backends.xnnpack.static_lowering import lower_static

        program = self.program or self._again(progress)
        progress.enter("lower")
        lowered = lower_static(program)
        (folder / ARTIFACT).write_bytes(lowered.artifact)
        save_facts(folder, _facts(program, lowered))

    def _again(self, progress: Progress) -> Program:
        """The last graph of an export that was interrupted after its rungs were measured."""
        progress.enter("capture", "again, after an interruption")
        _, program = self._capture()
        return run_passes(program, self.passes())

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor]) -> list[Rung]:
        """Execute the artifact on the example inputs and compare."""
        from edgec.runtime_py.engines.method import Method

        if not self.inputs:
            assert self.request.source.factory is not None
            _, self.inputs = self.request.source.factory()
        outputs = Method(artifact)(self.inputs)
        executed = Stage("artifact", flat(outputs))
        loose = rounds_weights(self.request.recipe)
        budget = {"max_relative": 0.1} if loose else ladder.FLOAT_LOWERING
        note = "executed by ExecuTorch on this machine"
        how = partial(lowering_rung, budget=budget, rounded=loose, note=note)
        return [by_output(Stage(rewrite.final, logits["final"]), executed, sizes_of(outputs), how)]


def quality_budget(request: Request) -> dict[str, float]:
    """Outputs of a module are no distribution over tokens: they are compared by size, not by KL."""
    return {"max_relative": request.recipe.budgets.get("max_relative", 0.25)}


def by_output(before: Stage, after: Stage, sizes: Sequence[int], how: Callable[[Stage, Stage], Rung]) -> Rung:
    """The rung of the output that differs most for its own size: a small output does not hide behind a large one.

    Args:
        before: all outputs as rows, see ``flat``.
        after: the same.
        sizes: values of each output, in order.
        how: makes a rung of two stages.

    Returns:
        without the figures that only a distribution over tokens has.
    """
    one, other = (stage.logits.split(list(sizes), 1) for stage in (before, after))
    rungs = [
        how(replace(before, logits=a), replace(after, logits=b)) for a, b in zip(one, other, strict=True) if a.numel()
    ]
    place = max(range(len(rungs)), key=lambda index: _relative(rungs[index]))
    worst = rungs[place]
    told = f"output {place + 1} of {len(rungs)}, which differs most" if len(rungs) > 1 else ""
    note = "; ".join(filter(None, (worst.note, told)))
    return worst.model_copy(update={"kl_mean": None, "kl_max": None, "top1_agreement": None, "note": note})


def _relative(rung: Rung) -> float:
    """The largest difference for the reference's size; infinite where a value is not finite."""
    if rung.max_abs is None or rung.reference_max_abs is None:
        return math.inf
    return rung.max_abs / max(rung.reference_max_abs, 1e-12)


def flat(outputs: Any) -> Tensor:
    """All output tensors as rows [1, N] of float32."""
    return torch.cat([value.detach().float().reshape(1, -1) for value in _tensors(outputs)], 1)


def sizes_of(outputs: Any) -> list[int]:
    """Values of each output tensor."""
    return [value.numel() for value in _tensors(outputs)]


def _tensors(outputs: Any) -> Sequence[Tensor]:
    return outputs if isinstance(outputs, (tuple, list)) else (outputs,)


def _facts(program: Program, lowered: StaticLowered) -> Facts:
    weights = weight_facts(program, ())
    return Facts(
        passes=[pass_info(change) for change in program.history],
        methods=[method_info(program.interface)],
        states=[],
        limits=None,
        delegation=_delegation(lowered),
        operators=sorted(outside.operator for outside in lowered.outside),
        weights=weights,
        expected_weight_bytes=expected_bytes(weights, program),
    )


def _delegation(lowered: StaticLowered) -> Delegation:
    total = lowered.delegated_macs + sum(each.macs for each in lowered.outside)
    return Delegation(
        backend="xnnpack",
        delegates=lowered.delegates,
        delegated_operators=sum(lowered.delegated.values()),
        delegated_share=lowered.delegated_share(),
        fallbacks=[
            Fallback(operator=o.operator, count=o.count, reason=_REASON, share=o.macs / total if total else 0.0)
            for o in lowered.outside
        ],
    )
