"""Simulators that execute an artifact on this machine in place of its own unit; their times are never speeds."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.bundle.manifest import Manifest
from edgec.errors import InputError

_COREML, _COREAI = "edgec's interpreter of Core ML programs", "Apple's Core AI runtime for Linux"
_ONNX = "ONNX Runtime's kernels for this CPU"
_LITERT = "LiteRT's kernels for this CPU"
_HEXAGON = "Qualcomm's emulation of the Hexagon processor"
# Backend that the artifact's own runtime must have -> what executes it here.
SIMULATORS: Mapping[str, str] = {
    "CoreMLBackend": _COREML,
    "CoreML": _COREML,
    "CoreAI": _COREAI,
    "MLXBackend": "edgec's interpreter over mlx for this CPU",
    **dict.fromkeys(("LiteRT", "LiteRTLM", "LiteRTGPU", "LiteRTLMGPU"), _LITERT),
    "ONNXRuntime": _ONNX,
    "ONNXRuntimeGenAI": _ONNX,
    "QNNExecutionProvider": _HEXAGON,
}


def simulator_of(manifest: Manifest) -> str:
    """The simulator that executes the artifact here; empty where it runs as on its target."""
    return next((SIMULATORS[name] for name in manifest.runtime.backends if name in SIMULATORS), "")


_MEASURED = "LiteRTLM"
"""LiteRT-LM's own engine executes it here, too, as ``edgec bench`` measures it."""


def refuse_as_speed(manifest: Manifest) -> None:
    """Refuse to measure the speed of a bundle that only a simulator executes here.

    Raises:
        InputError: E427, a simulator executes it.
    """
    simulator = simulator_of(manifest)
    if simulator and _MEASURED not in manifest.runtime.backends:
        raise InputError(
            "This bundle cannot be measured on this machine.",
            where=manifest.name,
            why=f"it is executed here by {simulator}, and the time of a simulator says nothing about speed",
            fix="measure it on the phone: edgec embed makes a bench app; edgec plan estimates",
            code="E427",
        )
