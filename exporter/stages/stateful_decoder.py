"""Decoders for other people's runtimes on Apple's chips: one method of any length over two stacked caches.

cached program -> passes of the method -> backend -> artifact, executed through the runtime's own inputs

Every call of the ladder gives what the runtime gives: the call's tokens, unpadded, and an input as long as the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import torch
from torch import Tensor

from edgec.bundle.findings import Rung
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.progress import Progress
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.pass_orders import stateful_decoder_passes, stateful_passes
from edgec.exporter.stages.rewriting import Rewritten
from edgec.exporter.stages.static_decoder import StaticDecoderStages
from edgec.exporter.stages.static_lowering import MethodCalls
from edgec.ir.call_plan import Call
from edgec.ir.program import Effect, Program
from edgec.ir.row_tensor import fill_integers
from edgec.ir.stateful_call import MAIN, STATEFUL, StatefulGraph, StatefulMethods, StatefulNames
from edgec.ir.static_methods import Methods, run_static
from edgec.passes.contract import Pass, run_passes
from edgec.passes.static.stacked_cache import refuse_unstackable


class StatefulDecoderStages(StaticDecoderStages):
    """The stages of a decoder in the layout of another runtime."""

    @property
    def stage(self) -> str:
        """What the ladder calls the graph of the method."""
        return "stateful method"

    @property
    def names(self) -> StatefulNames:
        """The runtime's names."""
        return STATEFUL[self.request.form.stateful]

    def passes(self) -> list[Pass]:
        """The passes before those of the method, in order."""
        return stateful_decoder_passes(self.request.recipe, self.request.limits, self.request.calibration)

    def check(self, program: Program) -> None:
        """Refuse a captured program whose caches cannot be stacked, too."""
        super().check(program)
        refuse_unstackable(program)

    def functions(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """The one function; a layout of another runtime has none under adapters."""
        (program,) = programs.values()
        fill_integers(program.graph)
        return {MAIN: run_passes(program, stateful_passes(self.names, self.request.limits.context))}

    def graphs(self, functions: Mapping[str, Program]) -> Methods:
        """The function, executed by torch."""
        return StatefulMethods(StatefulGraph(functions[MAIN]), self.names)

    def first_calls(self, methods: Mapping[str, Program]) -> MethodCalls:
        """The first call of the probe."""
        call = self.request.probe.plan[0]
        tokens = torch.tensor([list(self.request.probe.tokens[: call.size])], dtype=torch.int32)
        given = {self.names.tokens: tokens, self.names.sized: self.names.sized_input(call.size)}
        return {name: [[given[tensor.name] for tensor in methods[name].interface.inputs]] for name in methods}

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Execute the artifact, and once more as a runtime gives a prompt: all of it at once, then single tokens."""
        rungs, merged = super().verify(artifact, rewrite, logits, progress), one_prompt(self.request.probe.plan)
        if merged == self.request.probe.plan:
            return rungs
        final = Stage(rewrite.final, logits["final"][-len(merged) :])
        executed = run_static(_unpadded(self.backend.execute(artifact)), self.request.probe.tokens, merged)
        after = Stage("whole prompt", executed, Effect.EXACT)
        return [*rungs, self._lowering(final, after, logits["reference"], rewrite.noise)]

    def _run(self, methods: Methods) -> Tensor:
        return super()._run(_unpadded(methods))

    def _locate(self, rung: Rung, done: Rewritten, progress: Progress) -> Rung:
        """The rung as it is: the graph's layers are not shown one by one."""
        return rung


def one_prompt(plan: tuple[Call, ...]) -> tuple[Call, ...]:
    """A plan whose first chunks are one call; the logits are those of the plan's last calls."""
    chunks = list(takewhile(lambda call: call.size > 1, plan))
    return (Call(0, sum(call.size for call in chunks), 1), *plan[len(chunks) :]) if chunks else plan


def _unpadded(methods: Methods) -> StatefulMethods:
    assert isinstance(methods, StatefulMethods)
    return replace(methods, chunk=1)
