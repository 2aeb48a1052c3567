"""A package's program as protobuf messages, read without importing coremltools (which takes seconds and logs)."""

from __future__ import annotations

import importlib
import sys
from functools import lru_cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from edgec.errors import InputError, ToolError
from edgec.platform_parts import require_parts

_ALIAS = "_edgec_coreml_proto"
SPEC_FILE = "Data/com.apple.CoreML/model.mlmodel"
WEIGHT_FOLDER = "Data/com.apple.CoreML/weights"


@lru_cache(maxsize=2)
def messages(module: str = "Model_pb2") -> Any:
    """The messages of Core ML's format; importing them as ``coremltools.proto`` would import all of coremltools.

    Raises:
        ToolError: E430, coremltools is not installed; E889, it cannot be on this system.
    """
    package = find_spec("coremltools")
    if package is None or not package.submodule_search_locations:
        require_parts(("coremltools",), "coremltools")
        raise ToolError("coremltools is not installed.", fix="pip install coremltools==9.0", code="E430")
    folder = Path(next(iter(package.submodule_search_locations))) / "proto"
    spec: ModuleSpec | None = spec_from_file_location(
        _ALIAS, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    if _ALIAS not in sys.modules:
        sys.modules[_ALIAS] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[_ALIAS])
    return importlib.import_module(f"{_ALIAS}.{module}")


def read_spec(package: Path) -> Any:
    """The ``Model`` message of a .mlpackage.

    Args:
        package: the folder NAME.mlpackage.

    Raises:
        InputError: E421, it is not a package, or holds no ML program.
    """
    file = package / SPEC_FILE
    try:
        spec = messages().Model.FromString(file.read_bytes())
    except OSError as cause:
        raise not_a_package(package, f"{SPEC_FILE} cannot be read: {cause.strerror}") from cause
    except Exception as cause:  # protobuf's DecodeError lives in the C extension
        raise not_a_package(package, f"{SPEC_FILE} is not a Core ML model: {cause}") from cause
    if spec.WhichOneof("Type") != "mlProgram":
        raise not_a_package(package, f"it holds a {spec.WhichOneof('Type') or 'nothing'}, not an ML program")
    return spec


def not_a_package(where: Path, why: str) -> InputError:
    """The error for a package that cannot be read (E421)."""
    return InputError(
        "The Core ML package cannot be read.",
        where=str(where),
        why=why,
        fix="export again; edgec reads packages of ML programs (iOS 15 and later)",
        code="E421",
    )
