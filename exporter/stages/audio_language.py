"""Speech-language models on a CPU: the methods hear and forward of one artifact.

window of features -> hear -> rows
|
tokens, positions + rows in the sound's place -> forward -> logits         prefill and decode, as every decoder here
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from edgec.bundle.audio_language import AUDIO_LANGUAGE_METHODS
from edgec.exporter.capture.audio_language import capture_audio_language
from edgec.exporter.capture.decoder import build_skeleton
from edgec.exporter.parity.audio_language import AudioModel, SoundProbe, sound_probe
from edgec.exporter.parity.probed_method import Probed
from edgec.exporter.parity.rows_and_text import ProbedRows, RowsReference
from edgec.exporter.progress import Progress
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.weights.streamed import LoadedWeights
from edgec.exporter.stages.pass_orders import audio_language_passes
from edgec.exporter.stages.several_methods import Programs, SeveralMethodsKind, SeveralMethodsStages

AUDIO_ENCODER, _ = AUDIO_LANGUAGE_METHODS


def audio_language_stages(request: ExportRequest) -> SeveralMethodsStages:
    """The stages of a speech-language model."""
    return SeveralMethodsStages(request, SeveralMethodsKind("features", _begin, _capture, _read, audio_language_passes))


def _begin(request: ExportRequest, weights: LoadedWeights, progress: Progress) -> tuple[Programs, Probed]:
    captured = _capture(request, weights, progress)
    progress.enter("reference")
    rows = captured[AUDIO_ENCODER].interface.outputs[0].shape[1]
    assert isinstance(rows, int)
    probe = _probe(request, rows)
    return captured, ProbedRows(AUDIO_LANGUAGE_METHODS, probe, AudioModel(request.source, weights).reference(probe))


def _capture(request: ExportRequest, weights: LoadedWeights, progress: Progress) -> Programs:
    progress.enter("capture")
    source = request.source
    assert source.audio is not None
    build = lambda: build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))  # noqa: E731
    context = max(request.limits.context, 8)
    return capture_audio_language(build, source.audio, request.spec, weights, context)


def _read(request: ExportRequest, kept: Mapping[str, Tensor]) -> Probed:
    reference = RowsReference.read(kept)
    return ProbedRows(AUDIO_LANGUAGE_METHODS, _probe(request, len(reference.whole)), reference)


def _probe(request: ExportRequest, rows: int) -> SoundProbe:
    assert request.source.audio is not None
    return sound_probe(request.source.audio.info(request.limits, rows), request.probe)
