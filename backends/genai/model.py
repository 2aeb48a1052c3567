"""The format ``onnx`` in onnxruntime-genai's layout: one model.onnx beside its weights.

graph with growing caches -> rounded matrices in blocks (blocks.py) -> ONNX's forms -> torch.onnx -> folder
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgec.backends.genai.blocks import BlockForm
from edgec.backends.genai.operators import translations
from edgec.backends.onnx.methods import cpu_session, named_outputs
from edgec.backends.onnx.translate import translated
from edgec.backends.onnx.weight_file import folder_layout, write_models
from edgec.backends.static_artifact import LoweringProgress, StaticArtifact
from edgec.bundle.findings import Delegation
from edgec.bundle.pte_layout import ArtifactLayout
from edgec.ir.growing_cache import PAST, GrowingMethods
from edgec.ir.program import Program
from edgec.passes.contract import run_pass

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

EXECUTED_BY: Final = "executed by ONNX Runtime on this machine's CPU"
MODEL: Final = "model"
"""The one method, and the name of its file."""
CHUNK: Final = 128
"""The most tokens that edgec gives it at once; the model takes any number."""


def lower(methods: Mapping[str, Program], path: Path, progress: LoweringProgress) -> StaticArtifact:
    """Write the model and its weights into a folder.

    Raises:
        InputError: E581, ONNX cannot express something.
        ToolError: E582, the ONNX libraries are not installed.
    """
    progress("convert", 0, 2)
    program = methods[MODEL]
    model = translated(run_pass(program, BlockForm()), MODEL, further=translations())
    progress("write", 1, 2)
    write_models({MODEL: model}, path)
    delegation = Delegation(
        backend="onnx", delegates=1, delegated_operators=len(model.graph), delegated_share=1.0, fallbacks=[]
    )
    return StaticArtifact({MODEL: program.interface}, delegation)


def execute(path: Path) -> GrowingMethods:
    """Load the model of a folder.

    Raises:
        InputError: E583, ONNX Runtime refuses it.
        ToolError: E582, there is no ONNX Runtime.
    """
    session = cpu_session(path / f"{MODEL}.onnx")
    return GrowingMethods(partial(named_outputs, session), _shapes(session), CHUNK)


def _shapes(session: InferenceSession) -> dict[str, tuple[int, int]]:
    """Heads and width of each cache, by its input."""
    prefix = PAST.partition(".")[0]
    held = [each for each in session.get_inputs() if each.name.startswith(prefix)]
    return {each.name: (int(each.shape[1]), int(each.shape[3])) for each in held}


def layout(path: Path) -> ArtifactLayout:
    """Where the artifact's bytes lie."""
    return folder_layout(path)
