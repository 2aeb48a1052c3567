"""onnxruntime-genai's decoder pipeline where no Snapdragon is: what executes the stages that are Hexagon's.

    contexts of shared weights    end the process in Qualcomm's emulation as soon as they are loaded
    fixed-point models            what they were compiled from, under the same names, on ONNX Runtime's CPU kernels
    contexts of their own weights compiled again from these; the emulation loads them, at seconds a token

Everything else is as in the bundle: the other stages, their order, names, shapes, windows and lengths.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from edgec.backends.qnn.context import FIXED_POINT, SOC, folders
from edgec.backends.qnn.htp import compile_contexts
from edgec.bundle.entry_points import Limits
from edgec.bundle.findings import Rung
from edgec.exporter.assemble.genai import CONFIG
from edgec.exporter.runners.texts import TOKENS, agreed
from edgec.exporter.runners.words import OwnText, token_agreement
from edgec.ir.static_methods import STATIC_METHODS
from edgec.runtime_py.runners.genai import NAME

ON_CPU: Final = " through its decoder pipeline, fixed-point models on this CPU in place of the contexts"
HEXAGON_STAGE: Final = f"{NAME} on Hexagon"
EMULATED_TOKENS: Final = 2
"""How many tokens are written in the emulation: a window of a prompt takes seconds there, and so does each token."""
BRIEF: Final[dict[str, Any]] = {"texts": [], "chats": [], "ends": [], "tokens": EMULATED_TOKENS}
"""What is left of a question there."""
_ON_HEXAGON: Final = (
    " through its decoder pipeline in Qualcomm's emulation, contexts compiled again without sharing (simulated)"
)
_ALONE, _OPTIONS = "alone", "session_options"
_Fields = dict[str, Any]


def has_room(prompt: Sequence[int], limits: Limits) -> bool:
    """Whether a prompt and the tokens after it fit into the context: what fills its last window up counts, too.

    One with a single token in its last window has none either: the pipeline reads that by ``prefill``, and edgec by
    ``decode``, whose fixed point has ranges of its own.
    """
    windows = -(-len(prompt) // limits.prefill_chunk)
    return windows * limits.prefill_chunk + TOKENS <= limits.context and len(prompt) % limits.prefill_chunk != 1


def on_this_cpu(folder: Path, artifact: Path) -> None:
    """Let the fixed-point models execute what is Hexagon's in a folder that is laid out as a bundle."""
    (folder / FIXED_POINT).symlink_to((artifact.parent / FIXED_POINT).resolve(), target_is_directory=True)

    def changed(stage: _Fields) -> _Fields:
        kept = {name: value for name, value in stage.items() if name != _OPTIONS}
        return {**kept, "filename": _elsewhere(stage, artifact, FIXED_POINT)}

    _change(folder, changed)


def on_emulated_hexagon(folder: Path, artifact: Path) -> None:
    """Let contexts that share nothing stand for the artifact's in a folder that ``on_this_cpu`` has not changed.

    Raises:
        InputError: E593, Qualcomm's compiler refuses a model.
    """
    soc = int((artifact / SOC).read_text())
    for part in folders(artifact.parent / FIXED_POINT):
        target = folder / _ALONE / part.name
        target.mkdir(parents=True)
        names = [f"{method}.onnx" for method in STATIC_METHODS]
        compile_contexts({part / name: target / name for name in names}, soc, shared=False)
    _change(folder, lambda stage: {**stage, "filename": _elsewhere(stage, artifact, _ALONE)})


def on_hexagon(own: OwnText, written: Sequence[int], runtime: str, epsilon: float) -> Rung:
    """The rung of the emulation.

    Args:
        own: what edgec writes by the fixed-point models.
        written: tokens that the pipeline wrote in the emulation, as many as ``EMULATED_TOKENS`` or up to an end.
        runtime: its name and version.
        epsilon: how far a logit of the contexts may be from one of the fixed-point models.
    """
    beginning = OwnText(own.tokens[:EMULATED_TOKENS], own.rows[:EMULATED_TOKENS])
    return agreed(HEXAGON_STAGE, runtime, _ON_HEXAGON, [token_agreement(beginning, written, epsilon)], epsilon)


def _elsewhere(stage: _Fields, artifact: Path, place: str) -> str:
    """A stage's file in another folder that has the artifact's parts."""
    return str(stage["filename"]).replace(f"{artifact.name}/", f"{place}/", 1)


def _change(folder: Path, changed: Callable[[_Fields], _Fields]) -> None:
    """Change the stages that are Hexagon's in a folder's config."""
    config = json.loads((folder / CONFIG).read_text())
    stages = config["model"]["decoder"]["pipeline"]
    for each in stages:
        ((name, stage),) = each.items()
        each[name] = changed(stage) if _OPTIONS in stage else stage
    (folder / CONFIG).write_text(json.dumps(config))
