"""Non-decoder models on a CPU: capture, passes, lowering and comparison, in the shapes of their example inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from edgec.bundle.entry_points import FORWARD
from edgec.bundle.findings import Rung
from edgec.errors import EdgecError, InputError
from edgec.exporter.capture.module import capture_module, refuse_inputs_of_other_types
from edgec.exporter.capture.value_sizes import refuse_sizes_by_value
from edgec.exporter.parity import ladder
from edgec.exporter.parity.chosen_rows import chooses_rows, expose_choices, rung_with_choices
from edgec.exporter.parity.decisions import expose_scores, has_decisions, rung_with_decisions
from edgec.exporter.parity.earlier_calls import lasting_answer
from edgec.exporter.parity.ladder import Stage, lowering_rung, quality_rung
from edgec.exporter.parity.output_form import OutputForm, forms_of, with_probabilities
from edgec.exporter.parity.outputs import (
    flatten_outputs,
    joined_outputs,
    worst_output_rung,
    worst_rung,
)
from edgec.exporter.parity.own_code import own_code
from edgec.exporter.parity.probe_calls import ProbeCall
from edgec.exporter.progress import LOCATING, Progress
from edgec.exporter.recipes.passes import rounds_weights
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.encoders.sentence_encoder import other_lengths
from edgec.exporter.sources.encoders.sentence_form import TASK as SENTENCE_TASK
from edgec.exporter.sources.example_inputs import not_taken
from edgec.exporter.sources.modules.returned import Returned, returned_of
from edgec.exporter.stages.compiled import ARTIFACT, Facts, Rewrite, load_facts, method_info, save_facts
from edgec.exporter.stages.cpu_methods import block_rows, write_lowered
from edgec.exporter.stages.float_layers import float_loops
from edgec.exporter.stages.judged_inputs import JudgedInputs, judged_inputs
from edgec.exporter.stages.locating import locate_in_artifact
from edgec.exporter.stages.module_measure import module_budget, module_measure
from edgec.exporter.stages.module_orders import module_passes
from edgec.exporter.stages.rewriting import rewrite
from edgec.exporter.stages.standard_facts import standard_facts
from edgec.exporter.stages.unrolled_layers import unrolled_line
from edgec.exporter.stages.wider_layers import wider_line
from edgec.ir.program import Dynamic, Program
from edgec.ir.quantized_form import decisions_of
from edgec.ir.weight_decision import Decision
from edgec.passes.contract import Pass, run_passes
from edgec.passes.graph.calibration import Calibration

if TYPE_CHECKING:
    from edgec.runtime_py.engines.open_artifact import TorchMethod

# Whether a program has what scores decide, how an artifact shows its scores, and how it is judged by them.
_BY_SCORES = (
    (chooses_rows, expose_choices, rung_with_choices),
    (has_decisions, expose_scores, rung_with_decisions),
)


@dataclass
class ModuleStages:
    """The stages of a model without a KV cache; its program and example inputs stay in memory between them."""

    request: ExportRequest
    program: Program | None = None
    inputs: tuple[Tensor, ...] = ()
    _judged: JudgedInputs | None = None
    _exposed: dict[Callable[[Program], Program], Callable[[Sequence[Tensor]], Sequence[Tensor]]] = field(
        default_factory=dict
    )
    _folders: list[TemporaryDirectory[str]] = field(default_factory=list)

    def passes(self) -> list[Pass]:
        """The passes of this model, in order."""
        known = Calibration(calls=self.judged().calls) if self.request.recipe.weights is not None else None
        return module_passes(self.request.recipe, self.request.source.task == SENTENCE_TASK, known, self.request.loops)

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model and apply its passes; leave rungs and outputs in ``folder``."""
        progress.enter("capture")
        model, self.inputs = self._build()
        returned = self._reference(model)
        forms, notes = forms_of(returned.tensors, self.inputs), "; ".join(returned.notes)
        progress.step(0.0, notes)
        judged = self.judged(model)
        forms = with_probabilities(forms, judged.outputs)
        measure = module_measure(judged.calls, forms, self.request.recipe, self.request.source.trained)
        eager = Stage("eager module", joined_outputs(judged.outputs))
        done = rewrite(lambda: self.capture(model), eager, [[each] for each in self.passes()], measure, progress)
        self.program = done.program
        if unrolled := self.unrolled():
            progress.note(unrolled)
        notes = "; ".join(filter(None, (notes, unrolled)))
        wider = wider_line((*decisions_of(done.program.graph), *self.left_in_float()))
        replace(done.noted(notes), judged_on=judged.note, wider=wider).save(folder)

    def unrolled(self) -> str:
        """Which recurrent layers the lowering will write out step by step, in words."""
        assert self.program is not None
        return unrolled_line(self.program.graph)

    def left_in_float(self) -> list[Decision]:
        """Layers whose weights no pass of this target rounds, although the recipe rounds weights."""
        assert self.program is not None
        return [] if self.request.loops else float_loops(self.program, self.request.recipe)

    def _build(self) -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
        factory = self.request.source.factory
        assert factory is not None
        return factory()

    def _reference(self, model: torch.nn.Module) -> Returned:
        """What the model's own code returns; a module of the user's is also asked whether it remembers calls."""
        source = self.request.source
        try:
            if source.hf_config is None:
                return lasting_answer(lambda: self._build()[0], self.inputs, source.name)
            with torch.no_grad():
                return returned_of(model(*self.inputs), source.name)
        except EdgecError:
            raise
        except Exception as error:  # Model code of any family fails in its own way on inputs it was not made for.
            raise not_taken(source, " ".join(str(error).split())[:300] or type(error).__name__) from error

    def judged(self, model: torch.nn.Module | None = None) -> JudgedInputs:
        """The inputs that this model is judged on; made or bound on the first call."""
        if self._judged is None:
            if model is None:
                model, self.inputs = self._build()
            source = self.request.source
            self._judged = judged_inputs(model, self.inputs, source.name, source.input_names, self.request.inputs)
        return self._judged

    def varying(self) -> Dynamic | None:
        """The number of tokens, where the artifact may take texts of any length."""
        return self.request.source.tokens

    def capture(self, model: torch.nn.Module | None = None) -> Program:
        """Trace for any length of text, else for that of the example where the model's own code fixes lengths."""
        varying, trace = self.varying(), self._trace(self._build()[0] if model is None else model)
        if varying is None or self.request.source.task == SENTENCE_TASK:
            return trace(varying)
        try:
            return trace(varying)
        except InputError:
            return trace(None)

    def _trace(self, model: torch.nn.Module) -> Callable[[Dynamic | None], Program]:
        source, examples = self.request.source, self.examples()

        def trace(tokens: Dynamic | None) -> Program:
            program = capture_module(model, examples, source.name, source.input_names, tokens)
            refuse_sizes_by_value(program.graph, source.name)
            return program

        return trace

    def examples(self) -> tuple[Tensor, ...]:
        """The example inputs, made on the first call."""
        if not self.inputs:
            _, self.inputs = self._build()
        return self.inputs

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the last graph; leave the artifact and its facts in ``folder``."""
        program = self.rewritten(progress)
        refuse_inputs_of_other_types(program, self.request.source.name)
        facts = self._lower(program, folder, progress)
        if not self._runs_at_every_length(program, folder / ARTIFACT):
            progress.enter("lower", "for one length of text; the runtime refuses others")
            model, _ = self._build()
            self.program = program = run_passes(self._trace(model)(None), self.passes())
            facts = self._lower(program, folder, progress)
        save_facts(folder, facts)

    def _lower(self, program: Program, folder: Path, progress: Progress) -> Facts:
        """Write the artifact of a graph, with the kernels that the recipe names."""
        if self.request.recipe.kernels == "edgec":
            return write_lowered({FORWARD: program}, self.request, folder, progress)
        from edgec.backends.cpu.static_lowering import lower_static

        progress.enter("lower")
        lowered = lower_static(program, self.request.loops)
        (folder / ARTIFACT).write_bytes(lowered.artifact)
        return standard_facts(program, lowered)

    def _runs_at_every_length(self, program: Program, artifact: Path) -> bool:
        """Whether the runtime executes a text encoder's shortest and longest text; XNNPACK may refuse to resize."""
        from edgec.runtime_py.engines.open_artifact import TorchMethod

        varying, source = self.varying(), self.request.source
        if varying is None or source.task == SENTENCE_TASK or not method_info(program.interface).dynamic:
            return True
        method = TorchMethod(artifact)
        try:
            for inputs in (self.examples(), *other_lengths(self.examples(), varying.high)):
                method(inputs)
        except InputError:
            return False
        return True

    def rewritten(self, progress: Progress) -> Program:
        """The last graph, made again where an export was interrupted after its rungs were measured."""
        if self.program is None:
            progress.enter("capture", "again, after an interruption")
            model, self.inputs = self._build()
            self.program = run_passes(self.capture(model), self.passes())
        return self.program

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Execute the artifact on the inputs that the model is judged on, and compare."""
        from edgec.runtime_py.engines.open_artifact import TorchMethod

        method = TorchMethod(artifact)
        loose = rounds_weights(self.request.recipe)
        budget = ladder.accepting(ladder.ROUNDED_MODULE if loose else ladder.FLOAT_LOWERING, self.request.recipe)
        note = "executed by ExecuTorch on this machine"
        compare = partial(lowering_rung, budget=budget, rounded=loose, note=note)
        rung = self.executed_rung(artifact, Stage(rewrite.final, logits["final"]), self.executed(method), compare)
        return [rung if rung.passed else self._locate(rung, progress), *self._other_lengths(artifact, method, loose)]

    def executed(self, method: Callable[[Sequence[Tensor]], Sequence[Tensor]]) -> list[tuple[Tensor, ...]]:
        """An artifact's outputs for each of the inputs that the model is judged on."""
        return [tuple(value.clone() for value in method(call)) for call in self.judged().calls]

    def executed_rung(
        self,
        artifact: Path,
        final: Stage,
        outputs: Sequence[Sequence[Tensor]],
        compare: Callable[[Stage, Stage], Rung],
    ) -> Rung:
        """The rung of the call in which the artifact differs most from its graph."""
        forms = self.executed_forms(artifact, outputs[0])
        rungs, size = [], sum(form.size for form in forms)
        for call, wanted, own in zip(self.judged().calls, final.logits.split(size, 1), outputs, strict=True):
            rung = worst_output_rung(
                replace(final, logits=wanted), Stage("artifact", flatten_outputs(own)), forms, compare
            )
            rungs.append(self._with_choices(rung, call, own, forms, compare))
        return worst_rung(rungs, "input")

    def executed_forms(self, artifact: Path, outputs: Sequence[Tensor]) -> list[OutputForm]:
        """The form of each output of the artifact, by what the manifest will say of them."""
        return forms_of(tuple(outputs), self.examples(), load_facts(artifact.parent).methods[0])

    def _with_choices(
        self,
        rung: Rung,
        call: Sequence[Tensor],
        outputs: Sequence[Tensor],
        forms: Sequence[OutputForm],
        compare: Callable[[Stage, Stage], Rung],
    ) -> Rung:
        """A failed rung of a model whose scores choose rows or decide integers, judged again with the artifact's."""
        for expects, expose, judge in _BY_SCORES:
            if not rung.passed and expects(program := self.rewritten(Progress())):
                if expose not in self._exposed:
                    # Interpreters read constants when they are needed: the folder stays as long as these stages.
                    self._folders.append(folder := TemporaryDirectory())
                    self._exposed[expose] = self._function(expose(program), Path(folder.name))
                rung = judge(rung, program, call, outputs, self._exposed[expose](call), forms, compare)
        return rung

    def _function(self, program: Program, folder: Path) -> Callable[[Sequence[Tensor]], Sequence[Tensor]]:
        """Another artifact, of this program, as a function of its inputs; it lies in ``folder``."""
        from edgec.runtime_py.engines.open_artifact import TorchMethod

        (artifact := folder / ARTIFACT).write_bytes(self._lowered_bytes(program))
        return TorchMethod(artifact)

    def _other_lengths(self, artifact: Path, method: TorchMethod, loose: bool) -> Iterator[Rung]:
        """A text encoder's shortest and longest text, each compared with the model itself."""
        varying, recipe, trained = self.varying(), self.request.recipe, self.request.source.trained
        if varying is None or not load_facts(artifact.parent).methods[0].dynamic:
            return
        model, examples = self._build()
        for inputs in other_lengths(examples, varying.high):
            with own_code(model, f"a text of {inputs[0].shape[1]} tokens"), torch.no_grad():
                outputs = returned_of(model(*inputs), self.request.source.name).tensors
            wanted = Stage("eager module", flatten_outputs(outputs))
            count = inputs[0].shape[1]
            name = f"artifact, {count} {'token' if count == 1 else 'tokens'}"
            executed = Stage(name, flatten_outputs(method(inputs)))
            compare = partial(lowering_rung, budget=ladder.FLOAT_LOWERING)
            if loose:
                compare = partial(quality_rung, budget=module_budget(recipe), gated=trained)
            yield worst_output_rung(wanted, executed, forms_of(outputs, inputs), compare)

    def _locate(self, rung: Rung, progress: Progress) -> Rung:
        """Add to a failed rung the first layer where the artifact differs from its graph; costs a second lowering."""
        progress.step(0.5, LOCATING)
        program, calls = self.rewritten(Progress()), [ProbeCall(self.inputs)]
        layer = locate_in_artifact(program, calls, self._lowered_bytes)
        return rung.model_copy(update={"first_diverging_layer": layer})

    def _lowered_bytes(self, program: Program) -> bytes:
        rows = block_rows(self.request)
        if rows is not None:
            from edgec.backends.cpu.lower import lower

            return lower(program, block_rows=rows).artifact
        from edgec.backends.cpu.static_lowering import lower_static

        return lower_static(program, self.request.loops).artifact
