"""Static methods to a .pte with QNN delegates in float16, by ExecuTorch's own backend and the user's SDK.

graph -> norms written out -> torch.export -> [process with the SDK] ExecuTorch's QNN partitioner -> .pte of two methods

ExecuTorch's Python runtime has no QNN, so nothing here executes the result: the graphs are compared up to the last
pass, and the manifest says that the artifact itself was never run. Fixed point is what ``backends/qnn`` makes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from edgec.backends.delegated_pte import delegated_export
from edgec.backends.delegated_pte import delegated_layout as layout
from edgec.backends.qnn_delegate.hand_over import ANSWER, JOB, RESULT
from edgec.backends.qnn_delegate.sdk import environment, fitting_sdk, last_words
from edgec.backends.static_artifact import Chip, LoweringProgress, StaticArtifact
from edgec.bundle.findings import Delegation
from edgec.errors import InputError, ToolError
from edgec.ir.program import Program
from edgec.ir.static_methods import Methods

__all__ = ["EXECUTED_BY", "execute", "layout", "lower_for"]

EXECUTED_BY = "not executed: a QNN delegate runs on a Snapdragon only"


def lower_for(methods: Mapping[str, Program], path: Path, progress: LoweringProgress, chip: Chip) -> StaticArtifact:
    """Write a program of all methods.

    Args:
        methods: graphs in float32.
        path: the .pte.
        progress: told what is done.
        chip: what it is made for.

    Raises:
        ToolError: E584, E585 or E586: there is no fitting SDK, or no QNN in this ExecuTorch.
        InputError: E587, ExecuTorch or the SDK refuses the model.
    """
    root = fitting_sdk()
    with TemporaryDirectory(dir=path.parent) as scratch:
        folder = Path(scratch)
        for index, (name, program) in enumerate(methods.items()):
            progress("convert", index, len(methods) + 1)
            torch.export.save(delegated_export(program), folder / f"{name}.pt2")
        (folder / JOB).write_text(json.dumps({"soc_model": chip.soc_model, "methods": list(methods)}))
        progress("delegate", len(methods), len(methods) + 1)
        answer = _handed_over(folder, root)
        (folder / RESULT).rename(path)
    interfaces = {name: program.interface for name, program in methods.items()}
    return StaticArtifact(interfaces, Delegation.model_validate(answer["delegation"]), tuple(answer["operators"]))


def _handed_over(folder: Path, root: Path) -> dict[str, list[str]]:
    """Run the process with the SDK, and return its report on the program that it wrote."""
    line = [sys.executable, "-m", "edgec.backends.qnn_delegate.hand_over", str(folder)]
    done = subprocess.run(line, env=environment(root), capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0 or not (folder / ANSWER).is_file():
        raise InputError(
            what="ExecuTorch's QNN delegate could not be made",
            where=str(root),
            why=last_words(done),
            fix="export without --format pte (ONNX Runtime with QNN), or report the model",
            code="E587",
        )
    answer: dict[str, list[str]] = json.loads((folder / ANSWER).read_text())
    return answer


def execute(path: Path) -> Methods:
    """Refuse: ExecuTorch's Python runtime has no QNN.

    Raises:
        ToolError: E588.
    """
    raise ToolError(
        "An artifact with QNN delegates cannot be executed on this machine.",
        where=str(path),
        why="its delegates run on a Snapdragon's Hexagon processor only",
        fix="edgec embed --platform android makes an app that runs it; without --format pte an emulation executes it",
        code="E588",
    )
