"""MODEL as ``package.module:factory``: the user's code makes the module and its example inputs."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from edgec.errors import EdgecError, InputError
from edgec.exporter.sources.modules.module_state import held_state
from edgec.exporter.sources.modules.scripted import script_code

_FORM = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
Example = tuple[torch.Tensor, ...]


def is_factory(model: str) -> bool:
    """Whether MODEL has the form ``package.module:factory``."""
    return _FORM.fullmatch(model) is not None


def import_factory(model: str) -> tuple[Any, tuple[Path, ...]]:
    """Import the object that ``package.module:factory`` names; also returns the user's source files.

    The current directory is importable while the module is loaded.

    Raises:
        InputError: E108, the module cannot be imported or has no such name.
    """
    module_name, _, path = model.partition(":")
    try:
        with _current_directory_importable():
            module = import_module(module_name)
        factory: Any = module
        for part in path.split("."):
            factory = getattr(factory, part)
    except EdgecError:
        raise
    except (Exception, SystemExit) as error:  # Importing runs the user's code, which may raise anything.
        raise _failed(model, "cannot be imported", f"{type(error).__name__}: {error}") from error
    return factory, _own_files(module)


def call_factory(model: str, factory: Any) -> tuple[nn.Module, Example, Any]:
    """Make the module and its example inputs with the user's factory, and what it declares of its inputs, unchecked.

    Accepted: a callable returning ``(module, example_inputs)``, ``(module, example_inputs, declared)`` or a module with
    an attribute ``example_inputs``; or such a module itself. Example inputs are a tensor or a sequence of tensors,
    passed by position. What is declared is a dict by input (``edgec.bundle.input_preparation``), empty by default.

    Raises:
        InputError: E108, the factory fails or returns something else.
    """
    try:
        made = factory if isinstance(factory, nn.Module) else factory()
    except EdgecError:
        raise
    except (Exception, SystemExit) as error:  # The user's code may raise anything.
        raise _failed(model, "failed", f"{type(error).__name__}: {error}") from error
    if isinstance(made, tuple) and len(made) in (2, 3):
        module, inputs, declared = (*made, {})[:3]
    else:
        module, inputs, declared = made, getattr(made, "example_inputs", None), {}
    example = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    if not isinstance(module, nn.Module):
        raise _failed(model, "did not return an nn.Module", f"it returned a {type(module).__name__}")
    tensors = isinstance(example, (tuple, list)) and all(isinstance(value, torch.Tensor) for value in example)
    if not tensors or not example:
        raise _failed(model, "did not give example inputs", "they must be tensors, given by position")
    return module.eval(), tuple(example), declared


def state_digest(module: nn.Module, inputs: Example) -> str:
    """The sha256 of all that a module and its parts hold in tensors, numbers, texts and scripts, and of its inputs."""
    digest = hashlib.sha256()
    numbered = {str(index): value for index, value in enumerate(inputs)}
    for name, value in (*sorted(held_state(module).items()), *numbered.items()):
        if isinstance(value, torch.Tensor):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        else:
            digest.update(f"{name} {value!r}\n".encode())
    for code in script_code(module):
        digest.update(code)
    return digest.hexdigest()


def _own_files(module: ModuleType) -> tuple[Path, ...]:
    """The user's code: files of all loaded modules below the current folder or the factory's package."""
    file = getattr(module, "__file__", None)
    if file is None:
        return ()
    package = Path(file).resolve().parents[module.__name__.count(".")]
    loaded = [getattr(other, "__file__", None) for other in list(sys.modules.values())]
    # torch registers modules under file names that exist nowhere, such as "_ops.py".
    files = {Path(name).resolve() for name in loaded if name and name.endswith(".py") and Path(name).is_absolute()}
    installed = {Path(place).resolve() for place in (sys.prefix, sys.base_prefix)}
    roots = {package, Path.cwd()}
    own = {path for path in files if roots & set(path.parents) and not installed & set(path.parents)}
    return tuple(sorted(own | {Path(file).resolve()}))


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
