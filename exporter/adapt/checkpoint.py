"""A run on disk: everything that the next step depends on, so that a killed run continues without a trace."""

from __future__ import annotations

import hashlib
import io
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from edgec.bundle.atomic import clean_siblings, typed_os_errors, write_file
from edgec.errors import InputError


@dataclass(frozen=True)
class Point:
    """One measurement during training.

    Attributes:
        step: updates done.
        tokens: of text seen.
        loss: mean training loss since the last point; None before the first update.
        held_out: negative log-likelihood of the held-out text, nats per token.
        divergence: KL(teacher || student) on it, nats per token; None without a teacher.
    """

    step: int
    tokens: int
    loss: float | None
    held_out: float
    divergence: float | None


@dataclass
class TrainingState:
    """How far a run has come.

    Attributes:
        step: updates done.
        losses: since the last point.
        curve: points so far.
        seconds: of training.
    """

    step: int = 0
    losses: list[float] = field(default_factory=list)
    curve: list[Point] = field(default_factory=list)
    seconds: float = 0.0


def fingerprint(parts: dict[str, Any]) -> str:
    """What two runs must agree on for one to continue the other."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def save(
    file: Path,
    key: str,
    state: TrainingState,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    averages: dict[str, Tensor],
) -> None:
    """Write a checkpoint; a reader sees the old one or the new one, never a part.

    Raises:
        InputError: E121 or E122, it cannot be written.
    """
    trained = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    content = {
        "key": key,
        "state": asdict(state),
        "model": trained,
        "optimizer": optimizer.state_dict(),
        "averages": averages,
    }
    stream = io.BytesIO()
    torch.save(content, stream)
    with typed_os_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, stream.getbuffer())


def restore(
    file: Path, key: str, model: nn.Module, optimizer: torch.optim.Optimizer, averages: dict[str, Tensor]
) -> TrainingState:
    """Load a checkpoint into model, optimiser and averages; a new TrainingState where there is none.

    Raises:
        InputError: E507, the file is damaged or belongs to another run.
    """
    if not file.is_file():
        return TrainingState()
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
        known = content["key"]
    except Exception as error:  # torch raises whatever its unpickler meets.
        raise _unusable(file, " ".join(str(error).split())[:200]) from error
    if known != key:
        raise _unusable(file, "it belongs to a run with another model, recipe, text or settings")
    with torch.no_grad():
        for name, value in content["model"].items():
            model.get_parameter(name).copy_(value)
        for name, value in content["averages"].items():
            averages[name].copy_(value)
    optimizer.load_state_dict(content["optimizer"])
    state = content["state"]
    return TrainingState(state["step"], state["losses"], [Point(**point) for point in state["curve"]], state["seconds"])


def forget(file: Path) -> None:
    """Remove a checkpoint, and its folder unless something else lies in it."""
    with suppress(OSError):
        file.unlink(missing_ok=True)
        clean_siblings(file)
        file.parent.rmdir()


def _unusable(file: Path, why: str) -> InputError:
    return InputError(
        what="the checkpoint cannot be continued",
        where=str(file),
        why=why,
        fix="give the same options as before, another --out, or --restart to start over",
        code="E507",
    )
