"""Encoder-decoders for NPUs: encode and cross beside the static methods of the decoder, in one artifact.

source, source_used? -> encode -> states -> cross -> keys and values of the encoder, once for a source
|
tokens, start, those, source_used?, last -> prefill, decode -> logits                over the decoder's own states

A source has one length: a window of features as it is, a text with padding, which attention is told of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import Tensor

from edgec.bundle.entry_points import ENCODER_DECODER_METHODS, FORWARD, Limits
from edgec.exporter.parity.encoder_decoder import ExecutedEncoderDecoder, ProbedEncoderDecoder, named_memory
from edgec.exporter.parity.probed_method import Executed, Probed
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.weights.streamed import LoadedWeights
from edgec.exporter.stages.encoder_decoder import begin, capture, read_probed, source_probe_of
from edgec.exporter.stages.pass_orders import static_encoder_decoder_passes
from edgec.exporter.stages.several_methods import Programs, SeveralMethodsKind
from edgec.exporter.stages.static_decoder import refuse_unfixed
from edgec.exporter.stages.static_lowering import MethodCalls
from edgec.exporter.stages.static_several_methods import FixedText, StaticSeveralMethodsStages
from edgec.ir.static_methods import PREFILL, first_chunk
from edgec.passes.contract import Pass

_ENCODE, _CROSS, _ = ENCODER_DECODER_METHODS


@dataclass
class StaticEncoderDecoderStages(StaticSeveralMethodsStages):
    """The stages of an encoder-decoder with methods of fixed shapes, which stay in memory between them."""

    @cached_property
    def kind(self) -> SeveralMethodsKind:
        """What is particular to this kind of model, before its shapes are fixed."""
        return SeveralMethodsKind("source", self._begin, capture, read_probed, self._passes)

    def _begin(self, request: ExportRequest, weights: LoadedWeights, progress: Progress) -> tuple[Programs, Probed]:
        programs, probed = begin(request, weights, progress)
        refuse_unfixed(programs[FORWARD], request.form)
        return programs, probed

    def _passes(self, recipe: Recipe, limits: Limits) -> Mapping[str, list[Pass]]:
        return static_encoder_decoder_passes(recipe, limits, self.request.form, self.request.slots)

    def text(self, probed: Probed) -> FixedText:
        """The text after transformers' own keys and values of the first source."""
        assert isinstance(probed, ProbedEncoderDecoder)
        return FixedText(probed.text.tokens, probed.text.plan, memory=named_memory(probed.memory))

    def calls(self) -> MethodCalls:
        """The probe's first source, and the first chunk after it."""
        sources = source_probe_of(self.request)
        inputs = sources.inputs(sources.sources[0])
        states = self.methods[_ENCODE].graph(*inputs)
        kept: tuple[Tensor, ...] = self.methods[_CROSS].graph(states)
        memory = named_memory((*kept, *inputs[1:]))
        chunk = first_chunk(self.methods[PREFILL], self.request.probe.tokens, memory=memory)
        return {_ENCODE: [list(inputs)], _CROSS: [[states]], PREFILL: [chunk]}

    def executed(self, artifact: Path, probed: Probed) -> Executed:
        """Execute all functions, each alone and from the source to the logits."""
        assert isinstance(probed, ProbedEncoderDecoder)
        return probed.executed(ExecutedEncoderDecoder.of_form(artifact, self.request.form))
