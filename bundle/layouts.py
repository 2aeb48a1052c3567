"""The layouts of an artifact: by which names a runtime finds its functions, inputs, outputs and states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_LAYOUT = "edgec"


@dataclass(frozen=True)
class RuntimeLayout:
    """A layout.

    Attributes:
        formats: those that can have it.
        reader: who reads it, for messages.
        backend: what writes it, of the folders under ``backends``; empty for that of the format.
    """

    formats: tuple[str, ...]
    reader: str
    backend: str = ""


LAYOUTS: Mapping[str, RuntimeLayout] = {
    DEFAULT_LAYOUT: RuntimeLayout(
        ("pte", "mlpackage", "aimodel", "onnx", "qnn", "gguf", "litertlm", "tflite"), "edgec's own runtimes and apps"
    ),
    "genai": RuntimeLayout(("onnx",), "onnxruntime-genai", "genai"),
    "swift-transformers": RuntimeLayout(("mlpackage",), "Hugging Face's swift-transformers"),
    "coreai-models": RuntimeLayout(("aimodel",), "Apple's coreai-models"),
}
