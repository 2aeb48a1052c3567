"""Vision-language models on a CPU: the methods see and forward of one artifact.

tile -> see -> features
|
tokens, positions + features in the image's place -> forward -> logits     prefill and decode, as every decoder here
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from edgec.bundle.entry_points import VISION_ENCODER, VISION_LANGUAGE_METHODS
from edgec.errors import InputError
from edgec.exporter.capture.decoder import build_skeleton
from edgec.exporter.capture.vision_language import capture_vision_language
from edgec.exporter.parity.probed_method import Probed
from edgec.exporter.parity.rows_and_text import ProbedRows, RowsReference
from edgec.exporter.parity.vision_language import EagerModel, ImageProbe, image_probe
from edgec.exporter.progress import Progress
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.limits import longest_with_reach
from edgec.exporter.sources.weights.streamed import LoadedWeights
from edgec.exporter.stages.pass_orders import vision_language_passes
from edgec.exporter.stages.several_methods import Programs, SeveralMethodsKind, SeveralMethodsStages


def vision_language_stages(request: ExportRequest) -> SeveralMethodsStages:
    """The stages of a vision-language model."""
    return SeveralMethodsStages(
        request, SeveralMethodsKind("pixels", begin, capture, read_probed, vision_language_passes)
    )


def begin(request: ExportRequest, weights: LoadedWeights, progress: Progress) -> tuple[Programs, Probed]:
    """Capture both methods, and run transformers' own model on the probe.

    Raises:
        InputError: E109, the model cannot be traced; E651, E660, the context.
    """
    refuse_windows(request)
    captured = capture(request, weights, progress)
    progress.enter("reference")
    rows = captured[VISION_ENCODER].interface.outputs[0].shape[1]
    assert isinstance(rows, int)
    probe = image_probe_of(request, rows)
    return captured, ProbedRows(VISION_LANGUAGE_METHODS, probe, EagerModel(request.source, weights).reference(probe))


def capture(request: ExportRequest, weights: LoadedWeights, progress: Progress) -> Programs:
    """Trace both methods and bind their weights."""
    progress.enter("capture")
    source = request.source
    assert source.vision is not None
    build = lambda: build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))  # noqa: E731
    context = max(request.limits.context, 8)
    return capture_vision_language(build, source.vision, request.spec, weights, context)


def read_probed(request: ExportRequest, kept: Mapping[str, Tensor]) -> ProbedRows:
    """What ``begin`` made of the probe, from the tensors that were stored."""
    reference = RowsReference.read(kept)
    return ProbedRows(VISION_LANGUAGE_METHODS, image_probe_of(request, len(reference.whole)), reference)


def image_probe_of(request: ExportRequest, rows: int) -> ImageProbe:
    """The tile and the text on which a request's forms are compared; ``rows``: of a tile."""
    assert request.source.vision is not None
    static, window = request.form.static, request.window
    return image_probe(request.source.vision, rows, request.probe, request.limits, static=static, window=window)


def refuse_windows(request: ExportRequest) -> None:
    """Refuse a context beyond a sliding window where rows see rows after them: the window would begin too late.

    Raises:
        InputError: E660.
    """
    vision, context = request.source.vision, request.limits.context
    longest = longest_with_reach(request.spec)
    if vision is not None and vision.asked.ahead != "none" and context > longest:
        raise InputError(
            f"A context of {context} tokens is longer than this model's sliding window with images.",
            where="--context",
            why=f"its layers see {longest} tokens back, which edgec cannot measure from the rows of an image yet",
            fix=f"use --context {longest} or less, or export the text part with --task text-generation",
            code="E660",
        )
