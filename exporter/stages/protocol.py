"""The three stages of every kind of model. Each works on files, so that an export can be resumed between them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol

from torch import Tensor

from edgec.bundle.findings import Rung
from edgec.exporter.progress import Progress
from edgec.exporter.request import ExportRequest
from edgec.exporter.stages.compiled import Rewrite


class Stages(Protocol):
    """The stages of one request; ``exporter/pipeline.py`` calls them in this order, or takes them from the cache."""

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model and apply its passes; leave rungs and last outputs in ``folder``.

        Raises:
            BudgetError: E201, a pass missed its budget; E210, a weight that should be rounded stayed in float.
            InputError: the model cannot be captured, or a pass is not legal on it.
        """

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the last graph; leave the artifact and its facts in ``folder``."""

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Execute the artifact and compare it with the graph it was made from, and with the float model.

        Args:
            artifact: the file or folder that ``lower`` left.
            rewrite: what ``rewrite`` left: its rungs, and the names of the last graph and the reference.
            logits: their outputs, float32 [P, V], under ``final`` and ``reference``.
            progress: told where a failed rung is located, which may take as long as lowering did.
        """


_HERE = "edgec.exporter.stages"
# Keys: the kind of model; its methods have fixed shapes; ``Form.route``.
_STAGES: Mapping[tuple[str, bool, str], tuple[str, str]] = {
    ("decoder", False, ""): (f"{_HERE}.decoder", "DecoderStages"),
    ("decoder", True, ""): (f"{_HERE}.static_decoder", "StaticDecoderStages"),
    ("decoder", True, "stateful"): (f"{_HERE}.stateful_decoder", "StatefulDecoderStages"),
    ("decoder", True, "single"): (f"{_HERE}.single_method", "SingleMethodStages"),
    ("decoder", True, "written"): (f"{_HERE}.gguf_file", "GgufStages"),
    ("decoder", True, "growing"): (f"{_HERE}.growing_decoder", "GrowingDecoderStages"),
    ("decoder", True, "signatures"): (f"{_HERE}.signatures", "SignatureStages"),
    ("decoder", True, "calibrated"): (f"{_HERE}.calibrated", "CalibratedDecoderStages"),
    ("encoder-decoder", False, ""): (f"{_HERE}.encoder_decoder", "encoder_decoder_stages"),
    ("encoder-decoder", True, ""): (f"{_HERE}.static_encoder_decoder", "StaticEncoderDecoderStages"),
    ("vision-language", False, ""): (f"{_HERE}.vision_language", "vision_language_stages"),
    ("vision-language", True, ""): (f"{_HERE}.static_vision_language", "StaticVisionLanguageStages"),
    ("audio-language", False, ""): (f"{_HERE}.audio_language", "audio_language_stages"),
    ("module", False, ""): (f"{_HERE}.module", "ModuleStages"),
    ("module", True, ""): (f"{_HERE}.static_module", "StaticModuleStages"),
    ("module", True, "signatures"): (f"{_HERE}.static_module", "StaticModuleStages"),
    ("module", True, "calibrated"): (f"{_HERE}.calibrated", "CalibratedModuleStages"),
}
_BACKENDS = ("coreai", "coreml", "cpu", "genai", "gguf", "litert", "mlx", "onnx", "qnn", "vulkan")
LOWERING = (
    f"{_HERE}.static_lowering",
    "edgec.exporter.litert_facts",
    *(f"edgec.backends.{name}" for name in _BACKENDS),
)
"""Modules that lower, lint and execute an artifact; the graph before lowering does not depend on them."""


def stages_of(request: ExportRequest) -> Stages:
    """The stages of a request; only the modules that they need are imported."""
    module, name = _stages_maker(request)
    stages: Stages = getattr(import_module(module), name)(request)
    return stages


def stage_module(request: ExportRequest) -> str:
    """The dotted name of the module that defines a request's stages."""
    return _stages_maker(request)[0]


def _stages_maker(request: ExportRequest) -> tuple[str, str]:
    """The module with a request's stages, and the name in it of what makes them."""
    form = request.form
    if request.predictor is not None:
        return f"{_HERE}.predicted_decoder", "PredictedDecoderStages"
    return _STAGES[request.source.kind, form.static, form.route]
