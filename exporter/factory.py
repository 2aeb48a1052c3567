"""MODEL as ``package.module:factory``: the user's own code makes the module and its example inputs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgec.errors import EdgecError, InputError

_FORM = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
Example = tuple[torch.Tensor, ...]


def is_factory(model: str) -> bool:
    """Whether MODEL has the form ``package.module:factory``."""
    return _FORM.fullmatch(model) is not None


def import_factory(model: str) -> tuple[Any, Path | None]:
    """The object that ``package.module:factory`` names, and the file it is defined in.

    The current directory is importable while the module is loaded.

    Raises:
        InputError: E108, the module cannot be imported or has no such name.
    """
    module_name, _, path = model.partition(":")
    try:
        with _current_directory_importable():
            module = import_module(module_name)
        found: Any = module
        for part in path.split("."):
            found = getattr(found, part)
    except EdgecError:
        raise
    except (Exception, SystemExit) as error:  # Importing runs the user's code, which may raise anything.
        raise _failed(model, "cannot be imported", f"{type(error).__name__}: {error}") from error
    file = getattr(module, "__file__", None)
    return found, Path(file) if file else None


def call_factory(model: str, found: Any) -> tuple[nn.Module, Example]:
    """Make the module and its example inputs.

    Accepted: a callable returning ``(module, example_inputs)`` or a module with an attribute ``example_inputs``;
    or such a module itself. Example inputs are a tensor or a sequence of tensors, passed by position.

    Raises:
        InputError: E108, the factory fails or returns something else.
    """
    try:
        made = found if isinstance(found, nn.Module) else found()
    except EdgecError:
        raise
    except (Exception, SystemExit) as error:  # The user's code may raise anything.
        raise _failed(model, "failed", f"{type(error).__name__}: {error}") from error
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, _own_inputs(made))
    example = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    if not isinstance(module, nn.Module):
        raise _failed(model, "did not return an nn.Module", f"it returned a {type(module).__name__}")
    tensors = isinstance(example, (tuple, list)) and all(isinstance(value, torch.Tensor) for value in example)
    if not tensors or not example:
        raise _failed(model, "did not give example inputs", "they must be tensors, given by position")
    return module.eval(), tuple(example)


def _own_inputs(made: Any) -> Any:
    return getattr(made, "example_inputs", None)


@contextmanager
def _current_directory_importable() -> Iterator[None]:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _failed(model: str, what: str, why: str) -> InputError:
    return InputError(
        what=f"The factory {model} {what}.",
        where=model,
        why=why,
        fix="Name a callable without arguments that returns (nn.Module, (tensor, ...)), importable from this folder.",
        code="E108",
    )
