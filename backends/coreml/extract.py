"""The Core ML packages inside an ExecuTorch program: and which delegate of which method uses which.

ExecuTorch stores a delegate's package as one run of bytes that its own library spreads into a folder; where methods
share one package, a delegate holds a reference (``CMJR`` and JSON) to the named data and the function to call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.errors import InputError, ToolError

if TYPE_CHECKING:
    from executorch.exir._serialize._program import PTEFile

BACKEND = "CoreMLBackend"
_REFERENCE = b"CMJR"


@dataclass(frozen=True)
class DelegatePackage:
    """A delegate of one method, with its package.

    Attributes:
        method: the program's method.
        index: the delegate's place among the method's.
        package: the folder of its .mlpackage.
        function: the package's function that it calls.
        inputs: the function's inputs in the order of the delegate's arguments.
        outputs: the function's outputs, which follow the inputs.
    """

    method: str
    index: int
    package: Path
    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def extract_packages(pte: bytes, out: Path) -> list[DelegatePackage]:
    """Write every Core ML package of a program below ``out``; one that several methods share is written once.

    Args:
        pte: the program.
        out: a folder; made where absent.

    Raises:
        InputError: E424, the bytes are not a program, hold no Core ML delegate, or one that only a Mac can run.
        ToolError: E430, ExecuTorch was installed without its Core ML tools.
    """
    return extract_from(read_program(pte), out)


def read_program(pte: bytes) -> PTEFile:
    """Read a program into Python objects.

    Raises:
        InputError: E424, the bytes are not a program.
    """
    from executorch.exir._serialize._program import deserialize_pte_binary

    try:
        program = deserialize_pte_binary(pte)
        if program.program.execution_plan:
            return program
        raise ValueError("it has no methods")
    except Exception as cause:  # the generated reader fails in any way it likes on damaged bytes
        raise _refused("it is not a readable ExecuTorch program", str(cause)) from cause


def extract_from(program: PTEFile, out: Path) -> list[DelegatePackage]:
    """Write the Core ML packages of a program that is already read; raises as ``extract_packages``."""
    folders: dict[str, Path] = {}
    packages = []
    for plan in program.program.execution_plan:
        for index, delegate in enumerate(plan.delegates):
            if delegate.id == BACKEND:
                raw = program.program.backend_delegate_data[delegate.processed.index].data
                packages.append(_delegate(program, bytes(raw), plan.name, index, folders, out))
    if not packages:
        raise _refused("it has no Core ML delegate", "")
    return packages


def _delegate(
    program: PTEFile, raw: bytes, method: str, index: int, folders: dict[str, Path], out: Path
) -> DelegatePackage:
    reference: Mapping[str, Any] = json.loads(raw[len(_REFERENCE) :]) if raw.startswith(_REFERENCE) else {}
    key = reference.get("key", f"{method}_{index}")
    if key not in folders:
        blob = _named(program, key) if reference else raw
        folders[key] = _spread(blob, out / f"package_{len(folders)}")
    metadata = json.loads((folders[key] / "metadata.json").read_text())
    names = metadata["methods"][method] if "methods" in metadata else metadata
    function = reference.get("functionName", "")
    inputs, outputs = tuple(names["inputNames"]), tuple(names["outputNames"])
    return DelegatePackage(method, index, _package(folders[key]), function, inputs, outputs)


def _named(program: PTEFile, key: str) -> bytes:
    data = program.named_data
    entry = data.pte_data.get(key) if data is not None else None
    if data is None or entry is None:
        raise _refused(f"the package {key} is not in it", "")
    return bytes(data.buffers[entry.buffer_index])


def _spread(blob: bytes, folder: Path) -> Path:
    """Write a delegate's bytes as files and return the folder that holds metadata.json."""
    try:
        from executorch.backends.apple.coreml import executorchcoreml
    except ImportError as cause:
        raise ToolError("ExecuTorch's Core ML tools are not installed.", why=str(cause), code="E430") from cause

    folder.mkdir(parents=True, exist_ok=True)
    if not executorchcoreml.unflatten_directory_contents(blob, str(folder.absolute())):
        raise _refused("a delegate's bytes are damaged", "")
    return next(path.parent for path in folder.rglob("metadata.json"))


def _package(folder: Path) -> Path:
    package = folder / "model.mlpackage"
    if not package.exists():
        raise _refused(
            "a delegate was compiled for one kind of device", "it holds no .mlpackage, which needs a Mac to run"
        )
    return package


def _refused(what: str, why: str) -> InputError:
    return InputError(
        f"No Core ML package can be taken out of the program: {what}.",
        where="model.pte",
        why=why,
        fix="export again with --target iphone --format pte",
        code="E424",
    )
