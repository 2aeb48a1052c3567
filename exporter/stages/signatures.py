"""Decoders as LiteRT-LM calls them: signatures for prompts of two sizes and for single tokens.

cached program -> prefill (128 tokens), prefill of a quarter, decode -> .tflite -> .litertlm

Caches hold a chunk more than the context: LiteRT clamps a write that does not fit, which destroys the rows before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from edgec.bundle.findings import Rung
from edgec.exporter.litert_facts import pack_language
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.progress import Progress
from edgec.exporter.stages.pass_orders import method_passes, static_decoder_passes
from edgec.exporter.stages.rewriting import Rewritten
from edgec.exporter.stages.static_decoder import FurtherCalls, StaticDecoderStages, rounded_same
from edgec.exporter.stages.static_lowering import MethodCalls
from edgec.ir.call_plan import Call
from edgec.ir.program import Program
from edgec.ir.row_tensor import fill_integers
from edgec.ir.static_methods import DECODE, PREFILL, first_chunk
from edgec.passes.contract import Pass, run_passes

SHORT: Final = "prefill_short"
"""The method for prompts, and ends of prompts, of a quarter of a chunk."""
_PART: Final = 4


class SignatureStages(StaticDecoderStages):
    """The stages of such a decoder."""

    @property
    def held(self) -> int:
        """Positions that the caches hold: the context, and a chunk for padding that begins at its last position."""
        limits = self.request.limits
        return limits.context + limits.prefill_chunk

    def passes(self) -> list[Pass]:
        """The passes that all signatures share, in order."""
        request = self.request
        return static_decoder_passes(request.recipe, request.limits, request.calibration, held=self.held)

    def functions(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """A method for each signature; LiteRT-LM reads adapters from files of its own."""
        (program,) = programs.values()
        fill_integers(program.graph)
        form = self.request.form
        return {
            name: run_passes(program, method_passes(name, tokens, self.held, form))
            for name, tokens in method_sizes(self.request.limits.prefill_chunk).items()
        }

    def same(self, done: Rewritten, after: Stage) -> Rung:
        """The graphs of the signatures against the program that they were made from."""
        return rounded_same(self.request, done, after)

    def first_calls(self, methods: Mapping[str, Program]) -> MethodCalls:
        """A prompt's first chunk, where what executes the methods computes in float16."""
        if not self.request.form.computed_in_half:
            return {}
        return {PREFILL: [first_chunk(methods[PREFILL], self.request.probe.tokens)]}

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the methods, and pack the model where the format is LiteRT-LM's."""
        super().lower(folder, progress)
        if self.request.form.packed:
            artifact = folder / self.request.form.artifact
            model = artifact.rename(artifact.with_suffix(".tflite"))
            pack_language(self.request, model, artifact)
            model.unlink()

    def further_calls(self) -> Mapping[str, FurtherCalls]:
        """Prompts by the smaller signature, and calls up to the last position, with padding beyond it."""
        limits, tokens = self.request.limits, self.request.probe.tokens
        whole = list(islice(cycle(tokens), limits.context))
        plans = {
            "short calls": short_calls(limits.prefill_chunk, len(tokens)),
            "last positions": last_calls(limits.prefill_chunk, limits.context),
        }
        return {name: (whole, plan) for name, plan in plans.items() if plan}


def method_sizes(chunk: int) -> dict[str, int]:
    """The tokens that each method takes."""
    short = chunk // _PART
    return {PREFILL: chunk, DECODE: 1, **({SHORT: short} if short > 1 else {})}


def short_calls(chunk: int, length: int) -> Sequence[Call]:
    """A prompt that fills the smaller signature, one that does not, and single tokens."""
    size = method_sizes(chunk).get(SHORT, 0)
    return _calls([size, size - size // _PART, *[1] * _PART], 0, length) if size else ()


def last_calls(chunk: int, context: int) -> Sequence[Call]:
    """The end of the context: a whole chunk, then calls of either signature whose padding lies beyond it."""
    short = method_sizes(chunk).get(SHORT, 0)
    sizes = [chunk, short + 1, short // 2, 1] if short else [chunk - 1, 1]
    sizes = [size for size in sizes if size]
    return _calls(sizes, max(0, context - sum(sizes)), context)


def _calls(sizes: Sequence[int], start: int, length: int) -> Sequence[Call]:
    """Calls one after the other, as far as there are tokens."""
    starts = [start + sum(sizes[:place]) for place in range(len(sizes))]
    return [Call(at, size, 1) for at, size in zip(starts, sizes, strict=True) if at + size <= length]
