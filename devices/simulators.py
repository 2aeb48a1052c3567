"""Simulators that execute an artifact on this machine in place of its own unit; their times are never speeds."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

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
# Backend of Apple's chips -> what executes it on a Mac, on that Mac's own units.
MAC_RUNTIMES: Final[Mapping[str, str]] = {
    "CoreML": "Core ML",
    "CoreMLBackend": "ExecuTorch's delegate for Core ML",
    "MLXBackend": "ExecuTorch's delegate for MLX",
}


def mac_runtime_of(manifest: Manifest) -> str:
    """What of this Mac executes an artifact made for Apple's chips; empty on other systems and for other artifacts."""
    if sys.platform != "darwin":
        return ""
    return next((MAC_RUNTIMES[name] for name in manifest.runtime.backends if name in MAC_RUNTIMES), "")


def simulator_of(manifest: Manifest) -> str:
    """The simulator that executes the artifact here; empty where it runs as on its target."""
    return "" if mac_runtime_of(manifest) else simulator_elsewhere(manifest)


def simulator_elsewhere(manifest: Manifest) -> str:
    """The simulator that executes the artifact where its unit is absent; empty for an artifact for CPUs."""
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
