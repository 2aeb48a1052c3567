"""LiteRT's packages, imported where they are needed; the converter lies in a folder of edgec's cache.

Its packages are installed without their requirements (converter.txt says why), so that no environment has to change.
Where they are installed already, those are taken.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from edgec.errors import ToolError
from edgec.installation import cache_root, install_command

CONVERTER_KIND: Final = "litert"
"""The kind of cache entry that the converter's folder is."""
_CONVERTER, _PINS = "litert_torch", Path(__file__).with_name("converter.txt")


def runtime_module(name: str) -> Any:
    """A module of the extra ``litert``.

    Raises:
        ToolError: E900, it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as cause:
        raise ToolError(
            f"{name.partition('.')[0]} is not installed, which this format needs.",
            where="litert",
            why=str(cause),
            fix=install_command("litert"),
            code="E900",
        ) from cause


def prepare_converter(say: Callable[[str], None]) -> None:
    """Make the converter importable; ``say`` is told where it is downloaded first.

    Raises:
        ToolError: E901, pip cannot install it.
    """
    if find_spec(_CONVERTER) is not None:
        return
    folder = _folder()
    if not (folder / _CONVERTER).is_dir():
        say(f"LiteRT's converter is installed into {folder}, about 750 MB, once (edgec cache clean removes it)")
        _install(folder)
    # Behind all else: what both have comes from this environment.
    sys.path.append(str(folder))
    invalidate_caches()


@cache
def load_converter() -> Any:
    """The module ``litert_torch``, with its operator for caches registered.

    ``prepare_converter`` ran before.
    """
    converter = runtime_module(_CONVERTER)
    # It tells every step of its own, beside edgec's.
    import_module("litert_torch._config").config.show_progress = False
    import_module("litert_torch.generative.custom_ops.dynamic_update_slice")
    return converter


def _folder() -> Path:
    """Where the converter of these versions lies, for this Python."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cache_root() / CONVERTER_KIND / f"{python}-{sha256(_PINS.read_bytes()).hexdigest()[:12]}"


def _install(folder: Path) -> None:
    """Install the converter's packages, which appear whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target"]
    with TemporaryDirectory(dir=folder.parent, prefix=".") as scratch:
        made = Path(scratch) / "packages"
        ended = subprocess.run(
            [*command, str(made), "--requirement", str(_PINS)], capture_output=True, text=True, check=False
        )
        if ended.returncode:
            raise _uninstalled(ended.stderr)
        # Another process may have been faster; what it installed is the same.
        if not folder.exists():
            made.rename(folder)


def _uninstalled(said: str) -> ToolError:
    lines = [line for line in said.splitlines() if line.startswith("ERROR")] or said.splitlines()[-1:]
    return ToolError(
        "LiteRT's converter could not be installed.",
        where=str(_PINS),
        why=(lines[-1] if lines else "pip said nothing")[:300],
        fix=f"pip install --no-deps -r {_PINS}, where there is a network or an index of your own (PIP_INDEX_URL)",
        code="E901",
    )
