"""onnxruntime-genai's decoder pipeline where no Snapdragon is: what executes the stages that are Hexagon's.

    contexts of shared weights    end the process in Qualcomm's emulation as soon as they are loaded
    fixed-point models            what they were compiled from, under the same names, on ONNX Runtime's CPU kernels
    contexts of their own weights compiled again from these; the emulation loads them, at seconds a token

Everything else is as in the bundle: the other stages, their order, names, shapes, windows and lengths.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from edgec.backends.qnn.context import FIXED_POINT
from edgec.exporter.assemble.genai import CONFIG

ON_CPU: Final = " through its decoder pipeline, fixed-point models on this CPU in place of the contexts"
_OPTIONS: Final = "session_options"
Stage = dict[str, Any]


def on_this_cpu(folder: Path, artifact: Path) -> None:
    """Let the fixed-point models execute what is Hexagon's in a folder that is laid out as a bundle."""
    (folder / FIXED_POINT).symlink_to((artifact.parent / FIXED_POINT).resolve(), target_is_directory=True)

    def changed(stage: Stage) -> Stage:
        kept = {name: value for name, value in stage.items() if name != _OPTIONS}
        return {**kept, "filename": _elsewhere(stage, artifact, FIXED_POINT)}

    _change(folder, changed)


def _elsewhere(stage: Stage, artifact: Path, place: str) -> str:
    """A stage's file in another folder that has the artifact's parts."""
    return str(stage["filename"]).replace(f"{artifact.name}/", f"{place}/", 1)


def _change(folder: Path, changed: Callable[[Stage], Stage]) -> None:
    """Change the stages that are Hexagon's in a folder's config."""
    config = json.loads((folder / CONFIG).read_text())
    stages = config["model"]["decoder"]["pipeline"]
    for each in stages:
        ((name, stage),) = each.items()
        each[name] = changed(stage) if _OPTIONS in stage else stage
    (folder / CONFIG).write_text(json.dumps(config))
