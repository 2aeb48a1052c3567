"""Static methods to an artifact, by the backend of the target's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from edgec.backends.static_artifact import Chip, Progress, StaticArtifact, backend_of, chip_backend_of
from edgec.ir.program import Program

if TYPE_CHECKING:
    from edgec.exporter.pipeline import Request


def lowered(
    request: Request,
    methods: Mapping[str, Program],
    path: Path,
    progress: Progress,
    examples: Sequence[Sequence[Tensor]] = (),
) -> StaticArtifact:
    """Write the artifact; a backend that makes it for one chip is told which.

    Args:
        request: for which target.
        methods: the last graphs, by name.
        path: the artifact's own.
        progress: told what is done.
        examples: inputs of a model that is no decoder, one tuple a call; ranges are measured on them.
    """
    form = request.form
    if not form.one_chip:
        return backend_of(form.module).lower(methods, path, progress)
    assert request.target.soc_model is not None  # refused before any work otherwise
    text = () if examples else (request.calibration or request.probe.tokens)[: request.limits.context]
    chip = Chip(request.target.soc_model, tuple(text), tuple(examples))
    return chip_backend_of(form.module).lower_for(methods, path, progress, chip)
