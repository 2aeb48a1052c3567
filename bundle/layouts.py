"""The layouts of an artifact: by which names a runtime finds its functions, inputs, outputs and states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_LAYOUT = "edgec"


@dataclass(frozen=True)
class RuntimeLayout:
    """A layout.

    Attributes:
        formats: those that can have it.
        reader: who reads it, for messages.
        backends: what writes it, of the folders under ``backends``, by format; a format without one has its own.
    """

    formats: tuple[str, ...]
    reader: str
    backends: Mapping[str, str] = field(default_factory=dict)


LAYOUTS: Mapping[str, RuntimeLayout] = {
    DEFAULT_LAYOUT: RuntimeLayout(
        ("pte", "mlpackage", "aimodel", "onnx", "qnn", "gguf", "litertlm", "tflite"), "edgec's own runtimes and apps"
    ),
    "genai": RuntimeLayout(("onnx", "qnn"), "onnxruntime-genai", {"onnx": "genai"}),
    "swift-transformers": RuntimeLayout(("mlpackage",), "Hugging Face's swift-transformers"),
    "coreai-models": RuntimeLayout(("aimodel",), "Apple's coreai-models"),
}
