"""Decoders for NPUs: static methods over one set of weights and states, lowered by the target's backend.

cached program -> passes of every method -> prefill (64 tokens), decode (1 token) -> backend -> artifact

Under each adapter of the request both methods exist once more (``adapted_methods.py``), over the same weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from edgec.backends.forms import Form
from edgec.backends.static_artifact import StaticBackend, backend_of
from edgec.bundle.findings import Rung
from edgec.exporter.parity import ladder
from edgec.exporter.parity.divergence import method_layers, program_layers
from edgec.exporter.parity.execution_noise import Noise, noise_note, second_execution
from edgec.exporter.parity.known_text import knows_text
from edgec.exporter.parity.ladder import Stage, lowering_rung
from edgec.exporter.parity.stored_matrices import hold_matrices
from edgec.exporter.progress import LOCATING, Progress
from edgec.exporter.recipes.passes import rounds_weights
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.request import ExportRequest
from edgec.exporter.stages.adapted_methods import (
    adapted_programs,
    artifact_logits,
    every_function,
    final_name,
    graph_methods,
    measure_graphs,
    of_adapter,
)
from edgec.exporter.stages.capturing import capture_request, stream_weights
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.decoder import artifact_quality, read_back_note, refuse_experts, rewrite_decoder
from edgec.exporter.stages.pass_orders import static_decoder_passes
from edgec.exporter.stages.rewriting import Rewritten, locate_layer, with_floats
from edgec.exporter.stages.static_lowering import MethodCalls, lower_methods
from edgec.ir.call_plan import Call
from edgec.ir.program import Effect, Program
from edgec.ir.static_methods import PREFILL, Methods, first_chunk, run_static
from edgec.passes.contract import Pass, run_passes
from edgec.passes.kv.recurrent_states import refuse_unheld_states
from edgec.passes.static.static_states import refuse_unwritten

FurtherCalls = tuple[Sequence[int], Sequence[Call]]
STAGE = "static methods"
UNTRAINED_NOTE = "untrained weights: a wider budget"


@dataclass
class StaticDecoderStages:
    """The stages of a decoder with static methods; its programs stay in memory between them."""

    request: ExportRequest
    methods: Mapping[str, Program] = field(default_factory=dict)

    @property
    def stage(self) -> str:
        """What the ladder calls the graphs of the methods."""
        return STAGE

    @property
    def backend(self) -> StaticBackend:
        """The backend that lowers and executes this decoder."""
        return backend_of(self.request.form.module)

    def passes(self) -> list[Pass]:
        """The passes that all methods share, in order."""
        return static_decoder_passes(self.request.recipe, self.request.limits, self.request.calibration)

    def check(self, program: Program) -> None:
        """Refuse a captured program that the form's methods cannot hold."""
        refuse_unfixed(program, self.request.form)

    def functions(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """The artifact's functions, made of the model as it is and of the model under each adapter."""
        return every_function(programs, self.request)

    def graphs(self, functions: Mapping[str, Program]) -> Methods:
        """The functions of the model as it is, executed by torch."""
        return graph_methods(functions, "")

    def further_calls(self) -> Mapping[str, FurtherCalls]:
        """Tokens and calls beside the probe's on which artifact and graphs are compared, by the rung's name; none."""
        return {}

    def same(self, done: Rewritten, after: Stage) -> Rung:
        """The graphs of the methods against the program that they were made from."""
        return lowering_rung(done.final, after)

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model, apply shared passes and each method's; leave rungs and logits."""
        done = rewrite_decoder(self.request, self.passes(), progress, check=self.check)
        programs = adapted_programs(done.program, self.request)
        self.methods = self.functions(programs)
        held = hold_matrices(self.methods)
        after = Stage(self.stage, self._run(self.graphs(held)))
        rung = self.same(done, after)
        ladder.gate([rung if rung.passed else self._locate(rung, done, progress)])
        under = {
            name: measure_graphs(name, program, held, done.final, self.request)
            for name, program in programs.items()
            if name
        }
        rungs = [rung, *(each for one in under.values() for each in one.rungs)]
        ladder.gate(rungs)
        finals = {final_name(name): one.final for name, one in under.items()}
        finals |= self._run_further(held, twice=done.noise is not None)
        replace(done, rungs=(*done.rungs, *rungs), final=after).save(folder, finals)

    def _run_further(self, graphs: Mapping[str, Program], twice: bool) -> dict[str, Tensor]:
        """The logits of further calls by the graphs; ``twice``: those of a second execution, too."""
        further = self.further_calls()
        made = {name: run_static(self.graphs(graphs), *calls) for name, calls in further.items()}
        if not (further and twice):
            return made
        second = second_execution(self.request.form).disturb
        moved = {name: second(program) for name, program in graphs.items()}
        return made | {_again(name): run_static(self.graphs(moved), *calls) for name, calls in further.items()}

    def _run(self, methods: Methods) -> Tensor:
        return run_static(methods, self.request.probe.tokens, self.request.probe.plan)

    def _locate(self, rung: Rung, done: Rewritten, progress: Progress) -> Rung:
        """Add to a failed rung the first layer where the methods differ from the program they were made from."""
        progress.step(1.0, LOCATING)
        probe = self.request.probe
        wanted = program_layers(done.program, probe.tokens, probe.plan)
        return locate_layer(wanted, method_layers(self.methods, probe.tokens, probe.plan), rung)

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the methods; leave the artifact and its facts in ``folder``."""
        methods = self.methods or self._rewrite_again(progress)
        lower_methods(self.request, methods, folder, progress, self.first_calls(methods))
        self.methods = {}

    def first_calls(self, methods: Mapping[str, Program]) -> MethodCalls:
        """Inputs on which values are measured against float16's range, by method."""
        chunk = first_chunk(methods[PREFILL], self.request.probe.tokens)
        return {name: [chunk] for name in methods if name.startswith(PREFILL)}

    def _rewrite_again(self, progress: Progress) -> Mapping[str, Program]:
        """Make the methods without measuring, for an export that was interrupted after its rungs were measured."""
        request = self.request
        program = capture_request(request, stream_weights(request.source), progress)
        program = with_floats(run_passes(program, self.passes(), in_place=True))
        return self.functions(adapted_programs(program, request))

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Execute the artifact and compare it with the graphs it was made from, and with the float model."""
        if not self.request.form.executed:
            return []
        recipe, reference = self.request.recipe, Stage(rewrite.reference, logits["reference"])
        methods = self.backend.execute(artifact)
        after = Stage("artifact", self._run(methods), Effect.EXACT)
        final = Stage(rewrite.final, logits["final"])
        read = read_back_note(artifact)
        rungs = [self._lowering(final, after, reference.logits, rewrite.noise, read)]
        if rounds_weights(recipe):
            rungs.append(artifact_quality(reference, final, after, rewrite.further, self.request))
        for name in (lora.name for lora in self.request.loras):
            final = Stage(rewrite.final, logits[final_name(name)])
            under = Stage("artifact", artifact_logits(methods, name, self.request), Effect.EXACT)
            rungs.append(of_adapter(self._lowering(final, under, final.logits, None), name))
        # Each execution begins with empty caches, and a second one's weights would lie beside these.
        del methods
        for name, calls in self.further_calls().items():
            after = Stage(name, run_static(self.backend.execute(artifact), *calls), Effect.EXACT)
            rungs.append(
                self._further(Stage(rewrite.final, logits[name]), after, reference.logits, logits.get(_again(name)))
            )
        return rungs

    def _further(self, final: Stage, after: Stage, text: Tensor, again: Tensor | None) -> Rung:
        """The artifact's further calls against those of its graph, whose second execution gave ``again``."""
        if again is None:
            return self._lowering(final, after, text, None)
        noise = second_execution(self.request.form).between(final.logits, again)
        return self._lowering(final, after, text, noise, most=ladder.MOST_NOISE_OF_CALLS)

    def _lowering(
        self,
        final: Stage,
        after: Stage,
        text: Tensor,
        noise: Noise | None,
        read: str = "",
        most: float = ladder.MOST_NOISE,
    ) -> Rung:
        """The artifact against its graph.

        Args:
            final: the graph.
            after: the artifact.
            text: the logits that say whether the model knows the probe's text.
            noise: how far two right executions differ; None where that was not measured.
            read: how many matrices were read back.
            most: the largest divergence of two right executions that passes.
        """
        untrained = not (self.request.source.trained and knows_text(text, self.request.probe))
        budget = lowering_budget(
            self.request.recipe, half=self.request.form.half, untrained=untrained, noise=noise, most=most
        )
        loose = noise is None and untrained and rounds_weights(self.request.recipe) and self.request.form.half
        told = [self.backend.EXECUTED_BY, read, UNTRAINED_NOTE if loose else "", noise_note(noise)]
        note = "; ".join(filter(None, told))
        return lowering_rung(final, after, budget, rounded=True, note=note)


def _again(name: str) -> str:
    """The name of the logits of a second execution."""
    return f"{name}, again"


def rounded_same(request: ExportRequest, done: Rewritten, after: Stage) -> Rung:
    """Graphs that round inputs against the program they were made from: sums in another order may round elsewhere."""
    if not rounds_weights(request.recipe):
        return lowering_rung(done.final, after)
    budget = lowering_budget(request.recipe, half=False, untrained=not request.source.trained, noise=done.noise)
    return lowering_rung(done.final, after, budget, rounded=True, note=noise_note(done.noise))


def lowering_budget(
    recipe: Recipe, *, half: bool, untrained: bool, noise: Noise | None = None, most: float = ladder.MOST_NOISE
) -> Mapping[str, float]:
    """How far an artifact may differ from its graph.

    Args:
        recipe: what was rounded.
        half: the artifact computes in float16 and rounds no activations.
        untrained: the weights are random, or predict text no better than random ones.
        noise: how far two right executions of the graph differ; constants bound what was not measured.
        most: the largest divergence of these that passes.
    """
    if noise is not None:
        own = ladder.measured(ladder.HALF_LOWERING if half else ladder.ROUNDED_LOWERING, noise, ladder.ALONE, most)
        return ladder.accepting(own, recipe)
    if not rounds_weights(recipe):
        return {**ladder.HALF_LOWERING, **recipe.budgets}
    if not half:
        return ladder.accepting(ladder.ROUNDED_LOWERING, recipe)
    budget = ladder.UNTRAINED_HALF_LOWERING if untrained else ladder.COMPRESSED_HALF_LOWERING
    return ladder.accepting(budget, recipe)


def refuse_unfixed(program: Program, form: Form) -> None:
    """Refuse what a form's static methods cannot hold, where only the captured program tells.

    Raises:
        InputError: E513, E527, E528.
    """
    refuse_experts(program)
    refuse_unheld_states(program, "edgec", form.unheld)
    refuse_unwritten(program)
