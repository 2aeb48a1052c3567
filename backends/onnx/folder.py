"""The format ``onnx``: prefill.onnx and decode.onnx over one file of weights, for ONNX Runtime on a CPU.

graph -> ONNX's forms (onnx_form.py) -> torch.onnx -> constants packed and shared -> folder
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgec.backends.onnx.methods import OnnxMethods, open_sessions
from edgec.backends.onnx.translate import translated
from edgec.backends.onnx.weight_file import folder_layout, write_models
from edgec.backends.static_artifact import LoweringProgress, StaticArtifact
from edgec.bundle.findings import Delegation
from edgec.bundle.pte_layout import ArtifactLayout
from edgec.ir.program import Program
from edgec.ir.static_methods import DECODE, PREFILL

EXECUTED_BY = "executed by ONNX Runtime on this machine's CPU"


def lower(methods: Mapping[str, Program], path: Path, progress: LoweringProgress) -> StaticArtifact:
    """Write the methods as a folder of ONNX models.

    Raises:
        InputError: E581, ONNX cannot express something.
        ToolError: E582, the ONNX libraries are not installed.
    """
    models = {}
    for index, (name, program) in enumerate(methods.items()):
        progress("convert", index, len(methods) + 1)
        models[name] = translated(program, name)
    progress("write", len(methods), len(methods) + 1)
    write_models(models, path)
    operators = sum(len(model.graph) for model in models.values())
    delegation = Delegation(
        backend="onnx", delegates=len(models), delegated_operators=operators, delegated_share=1.0, fallbacks=[]
    )
    return StaticArtifact({name: program.interface for name, program in methods.items()}, delegation)


def execute(path: Path) -> OnnxMethods:
    """Load both methods of a folder.

    Raises:
        InputError: E583, ONNX Runtime refuses them.
        ToolError: E582, there is no ONNX Runtime.
    """
    return OnnxMethods(open_sessions(path, (PREFILL, DECODE)))


def layout(path: Path) -> ArtifactLayout:
    """Where the artifact's bytes lie."""
    return folder_layout(path)
