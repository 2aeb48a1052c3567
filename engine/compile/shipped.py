"""The engine that edgec's own wheel brings, compiled for every processor of a class: no compiler is needed.

It lies in ``edgec/engine/built/ABI/`` and finds ExecuTorch's libraries in the folder beside edgec's. It is taken where
all of that fits: the system, the processor's instructions, ExecuTorch's version and place, and edgec's own sources.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from edgec.engine.compile.abi import PORTABLE, Abi
from edgec.processor import processor_features

BUILT: Final = "built"
_SYSTEMS: Final = {"linux": "Linux", "darwin": "Darwin"}


def fitting_abis(system: str, machine: str, features: frozenset[str]) -> list[Abi]:
    """The ABIs of edgec's wheels that run on a machine, best first.

    Args:
        system: as `sys.platform`.
        machine: as `platform.machine()`.
        features: the processor's instructions, by Linux's names.
    """
    named = [abi for abi in PORTABLE if (abi.system, abi.processor) == (_SYSTEMS.get(system), machine)]
    return [abi for abi in named if features.issuperset(abi.needs)]


def shipped_folder(sources: Path, digest: str, executorch: Path, version: str) -> Path | None:
    """The folder of the engine that fits this machine; None where edgec came without one.

    Args:
        sources: the engine's sources, beside which it lies.
        digest: of these sources.
        executorch: the package that is installed.
        version: of that package.
    """
    if not _brought(sources):
        return None
    for abi in fitting_abis(sys.platform, platform.machine(), processor_features()):
        folder = sources / BUILT / abi.name
        if folder.is_dir() and not _unfit(folder, abi, digest, executorch, version):
            return folder
    return None


def why_unused(sources: Path, digest: str, executorch: Path, version: str) -> str:
    """Why none of the engines that edgec's wheel brings fits this machine; empty where it brought none.

    Args:
        sources: the engine's sources, beside which they lie.
        digest: of these sources.
        executorch: the package that is installed.
        version: of that package.
    """
    names = _brought(sources)
    fitting = [abi for abi in fitting_abis(sys.platform, platform.machine(), processor_features()) if abi.name in names]
    if fitting:
        return _unfit(sources / BUILT / fitting[0].name, fitting[0], digest, executorch, version)
    here = f"{_SYSTEMS.get(sys.platform, sys.platform)} on {platform.machine()}"
    if lacking := [abi for abi in PORTABLE if abi.name in names and f"{abi.system} on {abi.processor}" == here]:
        here = f"a processor without {', '.join(sorted({*lacking[-1].needs} - processor_features()))}"
    return f"it is for {' and '.join(names)}, and this is {here}" if names else ""


def _brought(sources: Path) -> list[str]:
    """The names of the ABIs that edgec came with an engine for."""
    return sorted(folder.name for folder in (sources / BUILT).glob("*") if folder.is_dir())


def _unfit(folder: Path, abi: Abi, digest: str, executorch: Path, version: str) -> str:
    """Why the engine in a folder cannot be used with what is installed; empty where it can."""
    facts = _facts(folder)
    if (made := facts.get("executorch")) != version:
        return f"it is linked with ExecuTorch {made}, and {version} is installed"
    if (folder / abi.executorch_place).resolve() != (executorch / "lib").resolve():
        return f"it looks for ExecuTorch beside edgec, and the one that is installed lies in {executorch}"
    return "" if facts.get("sources") == digest else "it was compiled from other sources than this edgec's"


def _facts(folder: Path) -> Mapping[str, Any]:
    with suppress(OSError, ValueError):
        return dict(json.loads((folder / "build.json").read_bytes()))
    return {}
