"""Read the layout of an artifact of any form, and execute it on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgec.backends.forms import Form
from edgec.backends.static_artifact import backend_of
from edgec.bundle.pte_layout import ArtifactLayout, read_layout
from edgec.exporter.parity.execution import artifact_step
from edgec.ir.call_plan import DecoderStep
from edgec.ir.static_methods import methods_step


def artifact_layout(artifact: Path, form: Form) -> ArtifactLayout:
    """Where the bytes of an artifact are."""
    return backend_of(form.module).layout(artifact) if form.static else read_layout(artifact)


def function_of(artifact: Path, form: Form) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The artifact of a non-decoder model as a function of its inputs, in order."""
    from edgec.runtime_py.engines.open_artifact import TorchMethod
    from edgec.runtime_py.engines.simulated import open_function

    return open_function(form.backends[0], artifact) if form.static else TorchMethod(artifact)


def step_of(artifact: Path, form: Form) -> DecoderStep:
    """The artifact of a decoder as a function of tokens, positions and rows."""
    return methods_step(backend_of(form.module).execute(artifact)) if form.static else artifact_step(artifact)
