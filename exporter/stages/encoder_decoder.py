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
    SourceProbe,
    eager_reference,
    source_probe,
)
from edgec.exporter.parity.probed_method import Probed
from edgec.exporter.progress import Progress
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.encoders.encoder_decoder import fixed_source
from edgec.exporter.sources.weights.streamed import LoadedWeights
from edgec.exporter.stages.pass_orders import encoder_decoder_passes
from edgec.exporter.stages.several_methods import Programs, SeveralMethodsKind, SeveralMethodsStages


def encoder_decoder_stages(request: ExportRequest) -> SeveralMethodsStages:
    """The stages of an encoder-decoder."""
    return SeveralMethodsStages(
        request, SeveralMethodsKind("source", begin, capture, read_probed, encoder_decoder_passes)
    )


def begin(request: ExportRequest, weights: LoadedWeights, progress: Progress) -> tuple[Programs, Probed]:
    """Run transformers' own model on the probe, and capture the methods.

    Raises:
        InputError: E109, the model cannot be traced; E534, shapes are fixed, and its encoder does not know padding.
    """
    progress.enter("reference")
    sources, fixed = source_probe_of(request), request.form.static
    reference = eager_reference(request.source, weights, sources, request.probe, by_head=fixed)
    return capture(request, weights, progress), ProbedEncoderDecoder(sources, request.probe, reference)


def capture(request: ExportRequest, weights: LoadedWeights, progress: Progress) -> Programs:
    """Trace the methods and bind their weights."""
    progress.enter("capture")
    source, fixed = request.source, request.form.static
    assert source.reads is not None
    build = lambda: build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))  # noqa: E731
    reads = fixed_source(source.reads) if fixed else source.reads
    captured = capture_encoder_decoder(build, reads, request.spec, weights, request.limits.context, fixed=fixed)
    return dict(zip(ENCODER_DECODER_METHODS, (captured.encode, captured.cross, captured.forward), strict=True))


def read_probed(request: ExportRequest, kept: Mapping[str, Tensor]) -> ProbedEncoderDecoder:
    """What ``begin`` made of the probe, from the tensors that were stored."""
    return ProbedEncoderDecoder(source_probe_of(request), request.probe, EncoderDecoderReference.read(kept))


def source_probe_of(request: ExportRequest) -> SourceProbe:
    """The sources on which a request's forms are compared."""
    assert request.source.reads is not None
    return source_probe(request.source.reads, request.probe, request.spec.vocab_size, fixed=request.form.static)
