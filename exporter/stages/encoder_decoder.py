"""Encoder-decoders on a CPU: the methods encode, cross and forward of one artifact.

source -> encode -> states -> cross -> keys and values of the encoder, once for a source
|
tokens, positions ----------------> forward -> logits                 prefill and decode, as every decoder here
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from edgec.bundle.entry_points import ENCODER_DECODER_METHODS
from edgec.exporter.capture.decoder import build_skeleton
from edgec.exporter.capture.encoder_decoder import capture_encoder_decoder
from edgec.exporter.parity.encoder_decoder import (
    EncoderDecoderReference,
    ProbedEncoderDecoder,
    eager_reference,
    source_probe,
)
from edgec.exporter.parity.probed_method import Probed
from edgec.exporter.progress import Progress
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.weights import HeldWeights
from edgec.exporter.stages.pass_orders import encoder_decoder_passes
from edgec.exporter.stages.several_methods import Programs, SeveralMethodsKind, SeveralMethodsStages


def encoder_decoder_stages(request: ExportRequest) -> SeveralMethodsStages:
    """The stages of an encoder-decoder."""
    return SeveralMethodsStages(request, SeveralMethodsKind("source", _begin, _capture, _read, encoder_decoder_passes))


def _begin(request: ExportRequest, weights: HeldWeights, progress: Progress) -> tuple[Programs, Probed]:
    progress.enter("reference")
    assert request.source.reads is not None
    sources = source_probe(request.source.reads, request.probe, request.spec.vocab_size)
    reference = eager_reference(request.source, weights, sources, request.probe)
    return _capture(request, weights, progress), ProbedEncoderDecoder(sources, request.probe, reference)


def _capture(request: ExportRequest, weights: HeldWeights, progress: Progress) -> Programs:
    progress.enter("capture")
    source = request.source
    assert source.reads is not None
    build = lambda: build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))  # noqa: E731
    captured = capture_encoder_decoder(build, source.reads, request.spec, weights, request.limits.context)
    return dict(zip(ENCODER_DECODER_METHODS, (captured.encode, captured.cross, captured.forward), strict=True))


def _read(request: ExportRequest, kept: Mapping[str, Tensor]) -> Probed:
    assert request.source.reads is not None
    sources = source_probe(request.source.reads, request.probe, request.spec.vocab_size)
    return ProbedEncoderDecoder(sources, request.probe, EncoderDecoderReference.read(kept))
