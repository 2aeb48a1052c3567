"""Pickled weights: refused, because unpickling can run code, unless the user trusts the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from edgec.errors import InputError
from edgec.exporter.sources.files.model_forms import PICKLE_SUFFIXES
from edgec.exporter.sources.files.plain_files import plain_files
from edgec.exporter.sources.files.safetensors_header import TensorEntry, corrupt

# Other pickles that training leaves in a model folder.
_NOT_WEIGHTS = ("training_args", "optimizer", "scheduler", "scaler", "rng_state", "adapter_model")


@dataclass(frozen=True)
class PickledWeights:
    """Tensors read with ``torch.load(weights_only=True, mmap=True)``: data types only, no code is run.

    Attributes:
        files: the pickles, in name order.
        tensors: tensor name -> value.
    """

    files: tuple[Path, ...]
    tensors: Mapping[str, torch.Tensor]

    def names(self) -> Mapping[str, TensorEntry]:
        """Every tensor's dtype and shape."""
        return {name: TensorEntry(value.dtype, tuple(value.shape)) for name, value in self.tensors.items()}

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor, in its stored dtype."""
        return self.tensors[name]


def pickle_files(folder: Path) -> tuple[Path, ...]:
    """The weight pickles of a folder, in name order."""
    files = plain_files(folder, *(f"*{suffix}" for suffix in PICKLE_SUFFIXES))
    return tuple(file for file in files if not file.name.startswith(_NOT_WEIGHTS))


def open_pickles(files: tuple[Path, ...], allow_pickle: bool) -> PickledWeights:
    """Read weight pickles.

    Raises:
        InputError: E107 (not allowed) or E105 (unreadable, holds something that is not a tensor, or a
            tensor that another file holds too).
    """
    if not allow_pickle:
        raise _refused(files[0])
    tensors: dict[str, torch.Tensor] = {}
    for file in files:
        added = _state_dict(file)
        for name in added.keys() & tensors.keys():
            raise corrupt(file, f"tensor {name!r} is in another file too")
        tensors |= added
    return PickledWeights(files, tensors)


def _refused(file: Path) -> InputError:
    return InputError(
        what="The weights are in a pickle, which edgec does not open.",
        where=str(file),
        why="unpickling a file from a stranger can run the stranger's code",
        fix="Use the safetensors version of the model, or pass --allow-pickle if you trust this file.",
        code="E107",
    )


def _state_dict(file: Path) -> dict[str, torch.Tensor]:
    loaded = _load(file)
    # Lightning and other trainers nest the weights under one of these keys.
    for key in ("state_dict", "model"):
        loaded = loaded[key] if isinstance(loaded, dict) and isinstance(loaded.get(key), dict) else loaded
    good = isinstance(loaded, dict) and all(isinstance(value, torch.Tensor) for value in loaded.values())
    if not good or not loaded:
        raise corrupt(file, "it does not hold a table of tensors")
    return {str(name): value.detach() for name, value in loaded.items()}


def _load(file: Path) -> Any:
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=_is_zip(file))
    except Exception as error:  # A damaged pickle can raise anything.
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise corrupt(file, f"torch.load(weights_only=True) says: {reason}") from error


def _is_zip(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(4) == b"PK\x03\x04"
