"""Rewrite a captured model, and measure what each of its passes claims.

    eager model = captured program -> passes -> passes -> ... -> the graph that is lowered
                  |                   |         |
                  exact               exact     rounded: compared with the reference

Exact passes are compared with the graph before them, rounding ones with the float model, or with what the last semantic
pass made of it. A failed rung is located: which pass of its group, and the first attention layer that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from edgec.bundle.checkpoint_matrices import CheckpointMatrix
from edgec.bundle.findings import Rung
from edgec.exporter.parity import ladder
from edgec.exporter.parity.divergence import Layers, first_diverging_layer
from edgec.exporter.parity.execution_noise import Noise, Second
from edgec.exporter.parity.further import FurtherFigures
from edgec.exporter.parity.ladder import Stage, quality_rung
from edgec.exporter.progress import LOCATING, Progress
from edgec.exporter.stages.compiled import Rewrite, save_rewrite
from edgec.exporter.stages.weight_facts import require_rounded
from edgec.free_memory import return_free_memory
from edgec.ir.linear_memo import LinearMemo
from edgec.ir.program import Effect, Program
from edgec.ir.row_tensor import fill_floats
from edgec.passes.contract import Pass, concerned, effect_on, run_pass, run_passes
from edgec.passes.kv.kv_cache import KvCache


@dataclass(frozen=True)
class Measure:
    """How to run a model and compare its numbers: all that differs between decoders and other modules.

    Attributes:
        run: a program's outputs on the probe, float32 rows.
        lowering: compares two executions of the same arithmetic.
        quality: compares a rounded model with the float one.
        layers: a program's attention outputs on the probe, by layer.
        memo: what ``run`` may take from its last run, if it has one.
        method: the method that is measured, where a model has several.
        further: a program's logits at further positions, where quality is compared.
        locates_quality: look for the first layer that differs where quality is missed, too; it repeats the passes.
        second: how the last graph is executed another time, where two right executions differ.
    """

    run: Callable[[Program], Tensor]
    lowering: Callable[[Stage, Stage], Rung]
    quality: Callable[[Stage, Stage], Rung]
    layers: Callable[[Program], Layers]
    memo: LinearMemo = field(default_factory=LinearMemo)
    method: str = ""
    further: Callable[[Program], Tensor] | None = None
    second: Second | None = None
    locates_quality: bool = True

    def named(self, rung: Rung) -> Rung:
        """A rung that says which method it is about."""
        return ladder.of_method(rung, self.method) if self.method else rung

    def run_before(self, following: Sequence[Sequence[Pass]], program: Program) -> Tensor:
        """The outputs, kept for the run after the next group where that leaves most of them as they are."""
        self.memo.keeps = bool(following) and following[0][-1].effect is Effect.EXACT
        return self.run(program)


@dataclass(frozen=True)
class Rewritten:
    """A model ready to be lowered.

    Attributes:
        program: the last graph.
        rungs: the ladder so far.
        final: the outputs of the last graph.
        reference: the outputs of the float model, or of the last semantic pass.
        text: what the float model says after the words of a sample, token ids; may be empty.
        noise: how far a second right execution of the last graph is from the first.
        further: the last graph's quality at further positions.
        stored: what became of the matrices that the checkpoint stores as integers.
        judged_on: the inputs that a module is judged on, in words.
        wider: its layers with more bits than the recipe asks for, in words.
    """

    program: Program
    rungs: tuple[Rung, ...]
    final: Stage
    reference: Stage
    text: tuple[int, ...] = ()
    noise: Noise | None = None
    further: FurtherFigures | None = None
    stored: tuple[CheckpointMatrix, ...] = ()
    judged_on: str = ""
    wider: str = ""

    def noted(self, note: str) -> Rewritten:
        """The same with a note at its first rung, where there is something to say."""
        first, *others = self.rungs
        joined = "; ".join(filter(None, [first.note, note]))
        return replace(self, rungs=(first.model_copy(update={"note": joined}), *others))

    def save(self, folder: Path, others: Mapping[str, Tensor] | None = None) -> None:
        """Write names, rungs and outputs, for the verification of the artifact; ``others``: further outputs by name."""
        names = Rewrite(
            rungs=list(self.rungs),
            reference=self.reference.name,
            final=self.final.name,
            text=list(self.text),
            noise=self.noise,
            further=self.further,
            stored=list(self.stored),
            judged_on=self.judged_on,
            wider=self.wider,
        )
        kept = {"final": self.final.logits, "reference": self.reference.logits, **(others or {})}
        save_rewrite(folder, names, kept)


def rewrite(
    capture: Callable[[], Program],
    eager: Stage,
    groups: Sequence[Sequence[Pass]],
    measure: Measure,
    progress: Progress,
) -> Rewritten:
    """Capture a model, apply its passes, and measure what each claims.

    Args:
        capture: traces the model and binds its weights. The passes rewrite that very graph and free its float weights,
            so it is called again when a failure has to be located.
        eager: the model's own code, executed on the probe.
        groups: passes in order; those of a group are measured together, and only exact ones share a group.
        measure: how to run and compare.
        progress: told of each group of passes.

    Raises:
        BudgetError: E201 as soon as a gated rung fails; E210, a weight that should be rounded stayed in float.
    """
    program = capture()
    progress.enter("rewrite")
    reference = before = Stage("captured", measure.run_before(groups, program), further=eager.further)
    rungs, further = [measure.named(measure.lowering(eager, before))], None
    ladder.gate(rungs)
    for index, named in enumerate(groups):
        if not (group := concerned(named, program)):
            continue
        name = " + ".join(each.name for each in group)
        progress.step(index / len(groups), name)
        effect, unrounded = effect_on(group[-1], program), _run_unrounded(program, group[-1], measure)
        program = run_passes(program, group, in_place=True)
        return_free_memory()
        after = Stage(name, measure.run_before(groups[index + 1 :], program), effect)
        judged_later = reference.further is not None and not _is_last_change(groups[index:], effect)
        if reference.further is not None and not judged_later:
            after, further = _with_further(after, program, reference.further, measure)
        semantic = _semantic_reference(group[-1], after, unrounded)
        for measured in _compare(before, reference, after, measure, semantic):
            rung = ladder.with_error(measured) if judged_later else measured
            located = rung.half == "lowering" or measure.locates_quality
            if failed := rung.gated and not rung.passed and located:
                progress.step(index / len(groups), LOCATING)
            told = _locate(rung, _replay(capture, groups[:index]), group, before, measure) if failed else rung
            rungs.append(measure.named(told))
        ladder.gate(rungs)
        reference, before = semantic or reference, replace(after, further=None)
    require_rounded(with_floats(program))
    noise = measure.second.noise(program, before.logits, measure.run) if measure.second else None
    return Rewritten(program, tuple(rungs), before, reference, noise=noise, further=further)


def with_floats(program: Program) -> Program:
    """The program, whose float matrices that were made when they were read now have memory of their own."""
    fill_floats(program.graph)
    return program


def group_exact_passes(passes: Sequence[Pass]) -> list[list[Pass]]:
    """Group passes that are measured together: exact ones that follow each other; every other pass is alone."""
    groups: list[list[Pass]] = []
    for each in passes:
        exact = each.effect is Effect.EXACT
        if groups and exact and groups[-1][-1].effect is Effect.EXACT:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def locate_layer(wanted: Layers, got: Layers, rung: Rung) -> Rung:
    """Add to a failed rung the first layer whose attention differs by more than its effect allows."""
    tolerance = 1e-3 if rung.effect == "exact" else 0.5
    return rung.model_copy(update={"first_diverging_layer": first_diverging_layer(wanted, got, tolerance)})


def _is_last_change(groups: Sequence[Sequence[Pass]], effect: Effect) -> bool:
    """Whether a group changes the numbers for good: on purpose, or as the last one that rounds."""
    later = (each.effect for group in groups[1:] for each in group)
    return effect is Effect.SEMANTIC or (effect is Effect.APPROXIMATE and all(one is Effect.EXACT for one in later))


def _with_further(
    after: Stage, program: Program, reference: Tensor, measure: Measure
) -> tuple[Stage, FurtherFigures | None]:
    """A stage with its logits at the further positions, and its quality there."""
    assert measure.further is not None
    logits = measure.further(program)
    figures = None if after.effect is Effect.SEMANTIC else FurtherFigures.of(reference, logits)
    return replace(after, further=logits), figures


def _replay(capture: Callable[[], Program], groups: Sequence[Sequence[Pass]]) -> Program:
    """The graph after some groups of passes, made again."""
    return run_passes(capture(), [each for group in groups for each in group], in_place=True)


def _run_unrounded(program: Program, last: Pass, measure: Measure) -> Tensor | None:
    """The outputs after a pass that both changes the model on purpose and rounds it, without the rounding."""
    if effect_on(last, program) is not Effect.SEMANTIC or not isinstance(last, KvCache):
        return None
    return None if last.dtype == "float32" else measure.run(run_pass(program, last.unrounded()))


def _semantic_reference(last: Pass, after: Stage, unrounded: Tensor | None) -> Stage | None:
    """What a semantic pass makes of the model when it does not round: the reference for what follows."""
    if after.effect is not Effect.SEMANTIC:
        return None
    name = f"{last.name} in float"
    if unrounded is not None:
        return Stage(name, unrounded, Effect.SEMANTIC)
    return Stage(name, after.logits, Effect.SEMANTIC, further=after.further)


def _compare(before: Stage, reference: Stage, after: Stage, measure: Measure, semantic: Stage | None) -> list[Rung]:
    """The rungs of one group: its drift where it changes the model on purpose, and its rounding."""
    if after.effect is Effect.EXACT:
        return [measure.lowering(before, after)]
    if semantic is None:
        return [measure.quality(reference, after)]
    drift = quality_rung(before, semantic, {}, gated=False, note="changes the model on purpose: the new reference")
    return [drift, measure.quality(semantic, after)]


def _locate(rung: Rung, program: Program, group: Sequence[Pass], before: Stage, measure: Measure) -> Rung:
    """Add to a failed rung the pass at fault and the first layer that differs; runs every pass of the group again."""
    for each in group:
        changed = run_pass(program, each)
        if len(group) == 1 or not measure.lowering(before, Stage(each.name, measure.run(changed))).passed:
            break
        program = changed
    rung = rung.model_copy(update={"stage": each.name})
    return locate_layer(measure.layers(program), measure.layers(changed), rung)
