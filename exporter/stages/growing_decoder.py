"""Decoders whose caller holds keys and values that grow from call to call: one method of varying length.

cached program -> growing_cache -> model(input_ids, attention_mask, position_ids, past_key_values...) -> backend
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from edgec.backends.genai.model import CHUNK, MODEL
from edgec.bundle.findings import Rung
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.progress import Progress
from edgec.exporter.stages.pass_orders import static_decoder_passes
from edgec.exporter.stages.rewriting import Rewritten
from edgec.exporter.stages.static_decoder import StaticDecoderStages, rounded_same
from edgec.exporter.stages.static_lowering import MethodCalls
from edgec.ir.growing_cache import PAST, GrowingMethods
from edgec.ir.program import Program
from edgec.ir.static_methods import Methods, named_results
from edgec.passes.contract import Pass, run_pass
from edgec.passes.kv.growing_cache import GrowingCache, refuse_ungrouped


class GrowingDecoderStages(StaticDecoderStages):
    """The stages of such a decoder; its program stays in memory between them, as the only method."""

    @property
    def stage(self) -> str:
        """What the ladder calls the graph of the method."""
        return "growing cache"

    def passes(self) -> list[Pass]:
        """The passes up to the caches, in order; every layer runs for all tokens, since its operator takes as many."""
        recipe, limits = self.request.recipe, self.request.limits
        return static_decoder_passes(recipe, limits, self.request.calibration, limits.context, skips=False)

    def check(self, program: Program) -> None:
        """Refuse a captured program that the layout cannot express, too."""
        super().check(program)
        refuse_ungrouped(program)

    def functions(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """The one method; the layout has none under adapters."""
        (program,) = programs.values()
        return {MODEL: run_pass(program, GrowingCache(self.request.limits.context))}

    def graphs(self, functions: Mapping[str, Program]) -> Methods:
        """The method, executed by torch, its caches held as onnxruntime-genai holds them."""
        program, prefix = functions[MODEL], PAST.partition(".")[0]
        held = [tensor for tensor in program.interface.inputs if tensor.name.startswith(prefix)]
        shapes: Mapping[str, Any] = {tensor.name: (tensor.shape[1], tensor.shape[3]) for tensor in held}
        return GrowingMethods(partial(named_results, program), shapes, CHUNK)

    def same(self, done: Rewritten, after: Stage) -> Rung:
        """The graph with growing caches against the one before."""
        return rounded_same(self.request, done, after)

    def first_calls(self, methods: Mapping[str, Program]) -> MethodCalls:
        """None: the method computes in float32."""
        return {}

    def _locate(self, rung: Rung, done: Rewritten, progress: Progress) -> Rung:
        """The rung as it is: the graph's layers are not shown one by one."""
        return rung
