"""What a result depends on besides the request: edgec's source, and the versions of its tools.

A source digest covers the modules that made a result, and everything they import: earlier exports stay valid when a
bench table or an app template is edited, but not when a pass is.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Collection, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from edgec.bundle.checked_files import file_sha256
from edgec.installation import PACKAGE

EXECUTION = ("edgec.runtime_py", "edgec.devices", "edgec.engine", "edgec.apps")
"""Packages that execute and measure artifacts; no artifact depends on them."""
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_DATA = (".toml", ".json", ".txt", ".csv", ".cpp", ".h")


@cache
def source_digest(modules: tuple[str, ...], without: tuple[str, ...] = EXECUTION) -> str:
    """The sha256 over the source and data files of some modules and of everything they import.

    Args:
        modules: dotted names; imports inside functions are followed too.
        without: prefixes of modules that are left out, with their imports.
    """
    files = {file_of(name) for name in imported_modules(modules, without)}
    folders = {file.parent for file in files}
    paths = sorted({*files, *(data for folder in folders for data in _data_files(folder))})
    listing = [f"{path.relative_to(PACKAGE).as_posix()} {file_sha256(path)}" for path in paths]
    return hashlib.sha256("\n".join(listing).encode()).hexdigest()


def imported_modules(modules: Collection[str], without: tuple[str, ...] = ()) -> frozenset[str]:
    """The given modules and every module of edgec that they import, directly or through others."""
    seen: set[str] = set()
    pending = list(modules)
    while pending:
        name = pending.pop()
        if name not in seen and not name.startswith(without or ("\0",)):
            seen.add(name)
            pending += direct_imports(file_of(name))
    return frozenset(seen)


@cache
def direct_imports(file: Path, types: bool = False) -> tuple[str, ...]:
    """The modules of edgec that a file imports anywhere in it, by dotted name; ``types``: for type checkers too."""
    names: dict[str, None] = {}
    for statement in _statements(ast.parse(file.read_bytes()), types):
        if isinstance(statement, ast.Import):
            names |= dict.fromkeys(each.name for each in statement.names if _is_own(each.name))
        elif isinstance(statement, ast.ImportFrom) and _is_own(statement.module or ""):
            package = str(statement.module)
            inside = (f"{package}.{each.name}" for each in statement.names)
            names |= dict.fromkeys(name if file_of(name).is_file() else package for name in inside)
    return tuple(names)


def _is_own(module: str) -> bool:
    return module == "edgec" or module.startswith("edgec.")


def _statements(module: ast.Module, types: bool) -> Iterator[ast.stmt]:
    """Every statement, those of functions and classes too, without those for type checkers unless asked for."""
    pending: list[ast.AST] = [module]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        if types or not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
            pending += [part for name in _BLOCKS for part in getattr(node, name, ())]


def file_of(module: str) -> Path:
    """The file of a module of edgec; a package is its ``__init__.py``."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _data_files(folder: Path) -> Iterator[Path]:
    """Data files in a module's folder, and in folders below it that are not packages."""
    for path in folder.iterdir():
        if path.is_dir() and not any(path.glob("*.py")):
            yield from _data_files(path)
        elif path.suffix in _DATA:
            yield path


_TOOLS = ("torch", "executorch", "torchao", "transformers", "tokenizers", "safetensors", "edgec")


@cache
def tool_versions(more: tuple[str, ...] = ()) -> dict[str, str]:
    """The versions of everything that shapes an artifact, by name; ``more``: further packages of a format."""
    return {name: _version(name) for name in (*_TOOLS, *more)}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
