"""Models of several methods for NPUs: functions of their encoders beside the static methods of the decoder.

source or tile -> encode, cross or see -> memory or rows                             modules, as every other one
|
tokens, start, ..., last -> prefill, decode -> logits                                over the same states

The decoder is rewritten and measured with a varying length first, then as methods of fixed shapes, as in
``static_decoder.py``; the other functions are measured as modules. At the end the artifact runs as a whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from torch import Tensor

from edgec.backends.static_artifact import backend_of
from edgec.bundle.entry_points import FORWARD
from edgec.bundle.findings import Rung
from edgec.exporter.parity import ladder
from edgec.exporter.parity.divergence import call_layers, method_layers
from edgec.exporter.parity.known_text import knows_tokens
from edgec.exporter.parity.ladder import Stage, lowering_rung, of_method, quality_rung
from edgec.exporter.parity.outputs import worst_output_rung
from edgec.exporter.parity.probed_method import Executed, Probed, ProbedMethod
from edgec.exporter.parity.stored_matrices import hold_matrices
from edgec.exporter.progress import LOCATING, Progress
from edgec.exporter.recipes.passes import rounds_weights
from edgec.exporter.request import ExportRequest
from edgec.exporter.stages.adapted_methods import every_function, graph_methods
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.decoder import quality_budget
from edgec.exporter.stages.rewriting import Rewritten, locate_layer
from edgec.exporter.stages.several_methods import (
    REFERENCE,
    SeveralMethodsKind,
    keep_rewritten,
    rewrite_again,
    rewrite_methods,
)
from edgec.exporter.stages.static_decoder import STAGE, UNTRAINED_NOTE, lowering_budget
from edgec.exporter.stages.static_lowering import MethodCalls, lower_methods
from edgec.ir.call_plan import Call
from edgec.ir.memory_inputs import RememberingMethods
from edgec.ir.program import Program
from edgec.ir.row_inputs import Placed
from edgec.ir.static_methods import Methods, run_static


@dataclass(frozen=True)
class FixedText:
    """What static methods are fed, by transformers' own model before them.

    Attributes:
        tokens: of the text.
        plan: the calls that feed them.
        placed: rows in the place of tokens, of the whole text.
        memory: what the decoder knows of a source, by the inputs' names.
        begins: the position from which on the tokens are text.
    """

    tokens: tuple[int, ...]
    plan: tuple[Call, ...]
    placed: Placed = field(default_factory=dict)
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    begins: int = 0

    def logits(self, methods: Methods) -> Tensor:
        """The logits of the last token of every call, float32 [P, V]."""
        return run_static(RememberingMethods(methods, self.memory), self.tokens, self.plan, self.placed)

    def known(self, logits: Tensor) -> bool:
        """Whether logits of the float model predict the text better than chance."""
        return knows_tokens(logits, self.tokens, self.plan, self.begins)


@dataclass
class StaticSeveralMethodsStages(ABC):
    """The stages of such a model; its programs stay in memory between them."""

    request: ExportRequest
    methods: Mapping[str, Program] = field(default_factory=dict)

    @property
    @abstractmethod
    def kind(self) -> SeveralMethodsKind:
        """What is particular to this kind of model, before its shapes are fixed."""

    @abstractmethod
    def text(self, probed: Probed) -> FixedText:
        """What the decoder is fed after what transformers' own model computed."""

    @abstractmethod
    def calls(self) -> MethodCalls:
        """Calls on which values are measured against float16's range."""

    @abstractmethod
    def executed(self, artifact: Path, probed: Probed) -> Executed:
        """Execute an artifact's functions, each alone and all of them together."""

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, rewrite all methods, fix the decoder's shapes; leave rungs and outputs in ``folder``."""
        done, probed = rewrite_methods(self.request, self.kind, progress)
        self.methods = self._fixed({name: each.program for name, each in done.items()})
        text = self.text(probed)
        after = Stage(STAGE, text.logits(graph_methods(hold_matrices(self._text_methods), "")))
        rung = of_method(lowering_rung(done[FORWARD].final, after), FORWARD)
        ladder.gate([rung if rung.passed else self._locate(rung, done[FORWARD], probed, progress)])
        forward = replace(done[FORWARD], rungs=(*done[FORWARD].rungs, rung), final=after)
        keep_rewritten(folder, {**done, FORWARD: forward}, probed)

    def _fixed(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """The functions of the artifact: those with fixed shapes already, and the decoder's static methods."""
        beside = {name: program for name, program in programs.items() if name != FORWARD}
        return {**beside, **every_function({"": programs[FORWARD]}, self.request)}

    @property
    def _beside(self) -> dict[str, Program]:
        """The functions beside the methods of the decoder: those without states."""
        return {name: program for name, program in self.methods.items() if not program.interface.states}

    @property
    def _text_methods(self) -> dict[str, Program]:
        return {name: program for name, program in self.methods.items() if program.interface.states}

    def _locate(self, rung: Rung, done: Rewritten, probed: Probed, progress: Progress) -> Rung:
        """Add to a failed rung the first layer where the methods differ from the program they were made from."""
        progress.step(1.0, LOCATING)
        text, calls = self.text(probed), probed.methods()[FORWARD].calls(done.program.interface)
        fixed = method_layers(self._text_methods, text.tokens, text.plan, text.placed, text.memory)
        return locate_layer(call_layers(done.program, calls), fixed, rung)

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the functions; leave the artifact and its facts in ``folder``."""
        if not self.methods:
            self.methods = self._fixed(rewrite_again(self.request, self.kind, progress))
        groups = {**{name: {name: each} for name, each in self._beside.items()}, FORWARD: self._text_methods}
        lower_methods(self.request, self.methods, folder, progress, self.calls(), groups=groups)
        self.methods = {}

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Execute each function and compare it with its graph, then all of them together with the float model."""
        probed = self.kind.read(self.request, logits)
        executed, methods = self.executed(artifact, probed), probed.methods()
        untrained = not self._knows(probed, methods[FORWARD].wanted)
        rungs = [
            self._rung(method, logits[f"{name}.final"], executed.alone[name], rewrite, untrained)
            for name, method in methods.items()
        ]
        whole = Stage(f"artifact, from {self.kind.reads} to logits", executed.whole)
        return [*rungs, self._whole_rung(methods[FORWARD].wanted, whole)]

    def _knows(self, probed: Probed, wanted: Tensor) -> bool:
        """Whether the model was trained, as far as the probe can tell."""
        return self.request.source.trained and (self.text(probed).known(wanted) or self.request.probe.source != "text")

    def _rung(self, method: ProbedMethod, final: Tensor, executed: Tensor, rewrite: Rewrite, untrained: bool) -> Rung:
        """An executed function against its graph."""
        if method.gives_logits:
            return of_method(self._text_rung(Stage(rewrite.final, final), executed, untrained), method.name)
        before, after = Stage("rewritten graph", final), Stage("artifact", executed)
        forms = [replace(form, half=self.request.form.half) for form in method.forms]
        compare = partial(lowering_rung, budget=self._module_budget, rounded=True, note=self._note)
        return of_method(worst_output_rung(before, after, forms, compare), method.name)

    @property
    def _note(self) -> str:
        return backend_of(self.request.form.module).EXECUTED_BY

    @property
    def _module_budget(self) -> Mapping[str, float]:
        recipe, exact = self.request.recipe, ladder.HALF_MODULE if self.request.form.half else ladder.FLOAT_LOWERING
        return ladder.accepting(ladder.ROUNDED_MODULE if rounds_weights(recipe) else exact, recipe)

    def _text_rung(self, final: Stage, executed: Tensor, untrained: bool) -> Rung:
        """The static methods against their graphs; random weights, which let rounding grow, have a wider budget."""
        budget = lowering_budget(self.request.recipe, half=self.request.form.half, untrained=untrained)
        loose = untrained and rounds_weights(self.request.recipe) and self.request.form.half
        note = "; ".join(filter(None, [self._note, UNTRAINED_NOTE if loose else ""]))
        return lowering_rung(final, Stage("artifact", executed), budget, rounded=True, note=note)

    def _whole_rung(self, wanted: Tensor, whole: Stage) -> Rung:
        """The artifact, one function after the other, against transformers' own model."""
        original, recipe = Stage(REFERENCE, wanted), self.request.recipe
        if rounds_weights(recipe):
            gated = self.request.source.trained
            return quality_rung(original, whole, quality_budget(recipe), gated=gated, note=self._note)
        budget = ladder.HALF_LOWERING if self.request.form.half else ladder.WHOLE_LOWERING
        return lowering_rung(original, whole, {**budget, **recipe.budgets}, rounded=True, note=self._note)
