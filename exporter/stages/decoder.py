"""Decoders on a CPU: one method of varying length, lowered to XNNPACK and executed by ExecuTorch's runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from torch import Tensor

from edgec.bundle.entry_points import FORWARD_ROWS
from edgec.bundle.findings import Rung
from edgec.exporter.parity import ladder
from edgec.exporter.parity.divergence import Layers, program_layers
from edgec.exporter.parity.execution import run_artifact, run_program
from edgec.exporter.parity.execution_noise import noise_note, second_execution
from edgec.exporter.parity.further import FurtherFigures
from edgec.exporter.parity.ladder import Stage, executed_budget, lowering_rung, quality_rung
from edgec.exporter.parity.last_positions import last_positions, last_rung
from edgec.exporter.parity.own_roundings import rung_with_roundings
from edgec.exporter.parity.position_mixing import refuse_mixed_positions
from edgec.exporter.parity.probe import Probe
from edgec.exporter.parity.probe_calls import text_calls
from edgec.exporter.parity.quality import with_further
from edgec.exporter.parity.sample import model_text
from edgec.exporter.progress import ARBITRATING, LOCATING, Progress
from edgec.exporter.recipes.passes import rounds_values
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.unheld import unread_experts
from edgec.exporter.stages.capturing import capture_request, eager_model, eager_stage, stream_weights
from edgec.exporter.stages.compiled import Rewrite, load_facts
from edgec.exporter.stages.cpu_methods import block_rows, lower_to_folder
from edgec.exporter.stages.locating import locate_in_artifact
from edgec.exporter.stages.pass_orders import decoder_passes
from edgec.exporter.stages.rewriting import Measure, Rewritten, group_exact_passes, rewrite, with_floats
from edgec.exporter.stages.stored_fates import judge_stored
from edgec.ir.experts import EXPERTS
from edgec.ir.linear_memo import LinearMemo
from edgec.ir.program import Effect, Program
from edgec.passes.contract import Pass, nodes_of, run_passes


@dataclass
class DecoderStages:
    """The stages of a decoder; the captured and rewritten programs stay in memory between them."""

    request: ExportRequest
    program: Program | None = None

    def passes(self) -> list[Pass]:
        """The passes of this decoder, in order."""
        request = self.request
        return decoder_passes(request.recipe, request.limits, request.draft_heads, request.calibration)

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model and apply its passes; leave rungs and logits in ``folder``."""
        own = self.request.recipe.kernels == "edgec"
        done = rewrite_decoder(self.request, self.passes(), progress, check=None if own else refuse_experts)
        self.program = done.program
        done.save(folder)

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the last graph; leave the artifact and its facts in ``folder``."""
        program = self.program or self.rewrite_unmeasured(progress)
        lower_to_folder({FORWARD_ROWS: program}, self.request, folder, progress)
        self.program = None  # executing the artifact takes as much memory as its graph

    def rewrite_unmeasured(self, progress: Progress) -> Program:
        """The last graph, rewritten without measuring: an interrupted export goes on with it."""
        program = capture_request(self.request, stream_weights(self.request.source), progress)
        return with_floats(run_passes(program, self.passes(), in_place=True))

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Execute the artifact and compare it with the graph it was made from, and with the float model."""
        request = self.request
        lowering, *quality = artifact_rungs(artifact, rewrite, logits, request)
        again = not lowering.passed or (request.compare_layers and rounds_values(request.recipe))
        return [self._arbitrate(lowering, artifact, progress) if again else lowering, *quality]

    def _arbitrate(self, rung: Rung, artifact: Path, progress: Progress) -> Rung:
        """Judge a rung again, the graph with the artifact's own roundings; costs a second lowering.

        Where it fails it says the first layer that differs.
        """
        from edgec.backends.cpu.lower import lower

        progress.step(0.5, ARBITRATING)
        program = self.program or self.rewrite_unmeasured(Progress())
        rows, probe = block_rows(self.request), self.request.probe
        calls = text_calls(program.interface, probe.tokens, probe.plan)
        executed = run_artifact(artifact, probe.tokens, probe.plan)
        again = rung_with_roundings(
            rung, program, calls, executed, lambda exposed: lower(exposed, block_rows=rows).artifact
        )
        return again if again.passed else self._locate(again, program, progress)

    def _locate(self, rung: Rung, program: Program, progress: Progress) -> Rung:
        """Add to a failed rung the first layer where the artifact differs from its graph; costs a lowering."""
        from edgec.backends.cpu.lower import lower

        progress.step(0.5, LOCATING)
        rows, probe = block_rows(self.request), self.request.probe
        calls = text_calls(program.interface, probe.tokens, probe.plan)
        layer = locate_in_artifact(program, calls, lambda exposed: lower(exposed, block_rows=rows).artifact)
        return rung.model_copy(update={"first_diverging_layer": layer})


def refuse_experts(program: Program) -> None:
    """Refuse a mixture of experts where no kernel reads the chosen ones alone.

    Raises:
        InputError: E527.
    """
    if nodes_of(program.graph, EXPERTS):
        raise unread_experts(program.spec.family if program.spec else "the model")


def rewrite_decoder(
    request: ExportRequest,
    passes: list[Pass],
    progress: Progress,
    check: Callable[[Program], None] | None = None,
) -> Rewritten:
    """Capture a decoder and apply its passes, with every claim measured.

    Args:
        request: what to export.
        passes: in order.
        progress: told of every stage.
        check: refuses a captured program that the target cannot hold.

    Raises:
        BudgetError: E201, E210 as ``rewrite``.
        InputError: E526, something besides attention mixes positions; what ``check`` raises.
    """
    weights = stream_weights(request.source)
    progress.enter("reference")
    measure = decoder_measure(request.probe, request.recipe, request.source.trained)
    measure = _with_executions(measure, request, passes)
    model = eager_model(request.source, weights)
    eager = eager_stage(model, request.probe, measure.memo, further=measure.further is not None)
    text = model_text(model, request.sample_start, request.limits.context)
    del model  # it holds the weights
    at_last = last_positions(request.source, weights, request.limits.context)
    last: list[Rung] = []

    def capture() -> Program:
        program = capture_request(request, weights, progress)
        if check is not None:
            check(program)
        refuse_mixed_positions(program)
        if at_last is not None:
            last[:] = [last_rung(program, request.source, at_last)]
            ladder.gate(last)
        return program

    done = rewrite(capture, eager, group_exact_passes(passes), measure, progress)
    stored = judge_stored(done.program, request.form.static and request.form.half)
    return replace(done, text=text, rungs=(*last, *done.rungs), stored=stored)


def decoder_measure(probe: Probe, recipe: Recipe, trained: bool) -> Measure:
    """How to measure a decoder: logits at the probe's compared positions; rounding is gated for trained models."""
    memo = LinearMemo()
    run = lambda program: run_program(program, probe.tokens, probe.plan, memo)  # noqa: E731
    layers = lambda program: program_layers(program, probe.tokens, probe.plan)  # noqa: E731
    return replace(logits_measure(run, layers, recipe, trained), memo=memo)


def _with_executions(measure: Measure, request: ExportRequest, passes: Sequence[Pass]) -> Measure:
    """The measure with a second execution of the last graph, and the further positions of a trained model."""
    probe = request.probe
    if request.source.trained and probe.further and any(each.effect is Effect.APPROXIMATE for each in passes):
        measure = replace(measure, further=lambda program: run_program(program, probe.further, probe.further_plan))
    form = request.form
    rounds = form.static or rounds_values(request.recipe)
    measure = replace(measure, locates_quality=not request.spends_bits)
    return replace(measure, second=second_execution(form) if rounds and form.executed else None)


def logits_measure(
    run: Callable[[Program], Tensor], layers: Callable[[Program], Layers], recipe: Recipe, trained: bool
) -> Measure:
    """How to measure logits, however a program is run; rounding is gated for trained models."""
    note = "" if trained else "random weights: reported, not gated"
    return Measure(
        run=run,
        lowering=lowering_rung,
        quality=partial(quality_rung, budget=quality_budget(recipe), gated=trained, note=note),
        layers=layers,
    )


def quality_budget(recipe: Recipe) -> Mapping[str, float]:
    """How far a rounded model may differ from the float one: the recipe's budgets over the defaults."""
    return {**ladder.QUALITY, **recipe.budgets}


def artifact_rungs(
    artifact: Path, rewrite: Rewrite, logits: Mapping[str, Tensor], request: ExportRequest
) -> list[Rung]:
    """Execute the artifact in ExecuTorch's runtime and compare it with its own graph and with the float model."""
    probe, recipe = request.probe, request.recipe
    final, reference = Stage(rewrite.final, logits["final"]), Stage(rewrite.reference, logits["reference"])
    executed = Stage("artifact", run_artifact(artifact, probe.tokens, probe.plan), Effect.EXACT)
    loose = rounds_values(recipe)
    budget = executed_budget(recipe, rounded=loose, noise=rewrite.noise)
    read = read_back_note(artifact)
    note = "; ".join(filter(None, ["executed by ExecuTorch on this machine", read, noise_note(rewrite.noise)]))
    rungs = [lowering_rung(final, executed, budget, rounded=loose, note=note)]
    if loose:
        rungs.append(artifact_quality(reference, final, executed, rewrite.further, request))
    return rungs


def read_back_note(artifact: Path) -> str:
    """How many matrices of a lowered artifact were found in it as the graph has them; empty for none."""
    count = load_facts(artifact.parent).read_back
    return f"{count} matrices read from the file are the graph's to the bit" * (count > 0)


def artifact_quality(
    reference: Stage, final: Stage, executed: Stage, further: FurtherFigures | None, request: ExportRequest
) -> Rung:
    """An executed artifact against the float model, at the further positions, too, where its graph was there."""
    budget, gated = quality_budget(request.recipe), request.source.trained
    rung = quality_rung(reference, executed, budget, gated=gated)
    return rung if further is None else with_further(rung, reference, final, executed, further)
