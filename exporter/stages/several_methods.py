"""Models of several methods on a CPU: a ladder for each method, then one artifact of all.

    reference, capture -> method -> passes -> ... -> last graph -+
                          method -> passes -> ... -> last graph -+-> lowered together -> executed alone, and as a whole

Each method's graph is compared with transformers' own model on the same inputs, each executed method with its graph;
at the end the artifact runs as a whole. What the methods are, and on what they are compared, is a `SeveralMethodsKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from torch import Tensor

from edgec.bundle.entry_points import FORWARD
from edgec.bundle.findings import Rung
from edgec.exporter.parity import ladder
from edgec.exporter.parity.execution_noise import ROUNDED, Noise
from edgec.exporter.parity.ladder import Stage, executed_budget, lowering_rung, of_method, quality_rung
from edgec.exporter.parity.outputs import worst_output_rung
from edgec.exporter.parity.probed_method import Probed, ProbedMethod
from edgec.exporter.progress import LOCATING, Progress
from edgec.exporter.recipes.passes import rounds_values
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.weights.streamed import LoadedWeights
from edgec.exporter.stages.capturing import hold_weights
from edgec.exporter.stages.compiled import Rewrite, save_rewrite
from edgec.exporter.stages.cpu_methods import block_rows, lower_to_folder
from edgec.exporter.stages.decoder import logits_measure, quality_budget
from edgec.exporter.stages.locating import first_layer_lowered_otherwise
from edgec.exporter.stages.module_measure import outputs_measure
from edgec.exporter.stages.pass_orders import MethodPasses
from edgec.exporter.stages.rewriting import Measure, Rewritten, group_exact_passes, rewrite
from edgec.ir.program import Program
from edgec.passes.contract import run_passes

_EXECUTED = "executed by ExecuTorch on this machine"
REFERENCE = "transformers float32"

Programs = dict[str, Program]


@dataclass(frozen=True)
class SeveralMethodsKind:
    """A kind of model: all in which models of several methods differ.

    Attributes:
        reads: what the first method reads.
        begin: captures the methods and runs transformers' own model on the probe.
        capture: captures the methods again.
        read: what ``begin`` made of the probe, from the tensors that were stored.
        passes: of each method, in order.
    """

    reads: str
    begin: Callable[[ExportRequest, LoadedWeights, Progress], tuple[Programs, Probed]]
    capture: Callable[[ExportRequest, LoadedWeights, Progress], Programs]
    read: Callable[[ExportRequest, Mapping[str, Tensor]], Probed]
    passes: MethodPasses


@dataclass
class SeveralMethodsStages:
    """The stages of a model of several methods; its rewritten programs stay in memory between them."""

    request: ExportRequest
    kind: SeveralMethodsKind
    programs: Mapping[str, Program] | None = None

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model and apply its passes; leave rungs and outputs in ``folder``."""
        done, probed = rewrite_methods(self.request, self.kind, progress)
        self.programs = {name: each.program for name, each in done.items()}
        keep_rewritten(folder, done, probed)

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the last graphs; leave the artifact and its facts in ``folder``."""
        lower_to_folder(
            self.programs or rewrite_again(self.request, self.kind, progress), self.request, folder, progress
        )
        self.programs = None

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Execute each method and compare it with its graph, then all of them together with the float model."""
        probed = self.kind.read(self.request, logits)
        executed, methods = probed.execute(artifact), probed.methods()
        rungs = [
            self._lowering(
                method, Stage("rewritten graph", logits[f"{name}.final"]), executed.alone[name], rewrite.noise, progress
            )
            for name, method in methods.items()
        ]
        whole = Stage(f"artifact, from {self.kind.reads} to logits", executed.whole)
        return [*rungs, _whole_rung(methods[FORWARD].wanted, whole, self.request)]

    def _lowering(
        self, method: ProbedMethod, final: Stage, executed: Tensor, noise: Noise | None, progress: Progress
    ) -> Rung:
        rung = _lowering_rung(method, final, Stage("artifact", executed), self.request.recipe, noise)
        return of_method(rung if rung.passed else self._locate(rung, method, progress), method.name)

    def _locate(self, rung: Rung, method: ProbedMethod, progress: Progress) -> Rung:
        """Add to a failed rung the first layer where the artifact differs from its graph; costs a second lowering."""
        from edgec.backends.cpu.lower import lower_methods

        progress.step(0.5, LOCATING)
        programs, rows = self.programs or rewrite_again(self.request, self.kind, Progress()), block_rows(self.request)
        program = programs[method.name]

        def lower(exposed: Program) -> bytes:
            # With the other methods, which decide what kernels there are.
            return lower_methods({**programs, method.name: exposed}, block_rows=rows).artifact

        layer = first_layer_lowered_otherwise(program, method.layers(program), method.executed_layers, lower)
        return rung.model_copy(update={"first_diverging_layer": layer})


def rewrite_methods(
    request: ExportRequest, kind: SeveralMethodsKind, progress: Progress
) -> tuple[dict[str, Rewritten], Probed]:
    """Run the reference, capture the model and apply the passes of each method; also returns the probe.

    Raises:
        BudgetError: E201, E210 as ``rewrite``.
        InputError: the model cannot be captured, or a pass is not legal on it.
    """
    weights = hold_weights(request.source)
    captured, probed = kind.begin(request, weights, progress)
    weights.let_go()

    def capture(name: str) -> Program:
        """The captured program, which its passes use up; traced again where a failure has to be located."""
        return captured.pop(name, None) or kind.capture(request, weights, progress)[name]

    def rewritten(method: ProbedMethod) -> Rewritten:
        passes = kind.passes(request.recipe, request.limits)[method.name]
        measure = method_measure(method, request.recipe, request.source.trained)
        if method.gives_logits and rounds_values(request.recipe) and not request.form.static:
            measure = replace(measure, second=ROUNDED)
        eager = Stage(REFERENCE, method.wanted)
        return rewrite(partial(capture, method.name), eager, group_exact_passes(passes), measure, progress)

    return {name: rewritten(method) for name, method in probed.methods().items()}, probed


def rewrite_again(request: ExportRequest, kind: SeveralMethodsKind, progress: Progress) -> dict[str, Program]:
    """Rewrite without measuring, for an export that was interrupted after its rungs were measured."""
    captured = kind.capture(request, hold_weights(request.source), progress)
    passes = kind.passes(request.recipe, request.limits)
    return {name: run_passes(program, passes[name], in_place=True) for name, program in captured.items()}


def method_measure(method: ProbedMethod, recipe: Recipe, trained: bool) -> Measure:
    """How to measure a method: logits as those of every decoder, other outputs as those of a module."""
    if method.gives_logits:
        measure = logits_measure(method.run, method.layers, recipe, trained)
    else:
        measure = outputs_measure(method.run, method.layers, method.forms, recipe, trained)
    return replace(measure, method=method.name)


def keep_rewritten(folder: Path, done: Mapping[str, Rewritten], probed: Probed) -> None:
    """Leave the rungs of all methods in ``folder``, their last outputs, and what their reference computed."""
    outputs = {f"{name}.final": each.final.logits for name, each in done.items()}
    rungs = [rung for each in done.values() for rung in each.rungs]
    decoder = done[FORWARD]
    names = Rewrite(rungs=rungs, reference=REFERENCE, final=decoder.final.name, noise=decoder.noise)
    save_rewrite(folder, names, {**outputs, **probed.tensors(), "reference": done[FORWARD].reference.logits})


def _lowering_rung(method: ProbedMethod, final: Stage, artifact: Stage, recipe: Recipe, noise: Noise | None) -> Rung:
    """An executed method against its graph; ``noise``: how far two right executions of a decoder differ."""
    loose = rounds_values(recipe)
    compare = partial(lowering_rung, rounded=loose, note=_EXECUTED)
    if method.gives_logits:
        return compare(final, artifact, executed_budget(recipe, rounded=loose, noise=noise, multiple=ladder.ALONE))
    budget = ladder.accepting(ladder.ROUNDED_MODULE if loose else ladder.FLOAT_LOWERING, recipe)
    return worst_output_rung(final, artifact, method.forms, partial(compare, budget=budget))


def _whole_rung(wanted: Tensor, whole: Stage, request: ExportRequest) -> Rung:
    """The artifact, all methods one after the other, against transformers' own model."""
    original, recipe = Stage(REFERENCE, wanted), request.recipe
    if rounds_values(recipe):
        return quality_rung(original, whole, quality_budget(recipe), gated=request.source.trained, note=_EXECUTED)
    return lowering_rung(original, whole, {**ladder.WHOLE_LOWERING, **recipe.budgets}, note=_EXECUTED)
