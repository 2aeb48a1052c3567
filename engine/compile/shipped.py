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
    if not (sources / BUILT).is_dir():
        return None
    for abi in fitting_abis(sys.platform, platform.machine(), processor_features()):
        folder = sources / BUILT / abi.name
        facts = _facts(folder)
        lies_there = (folder / abi.executorch_place).resolve() == (executorch / "lib").resolve()
        if lies_there and (facts.get("sources"), facts.get("executorch")) == (digest, version):
            return folder
    return None


def _facts(folder: Path) -> Mapping[str, Any]:
    with suppress(OSError, ValueError):
        return dict(json.loads((folder / "build.json").read_bytes()))
    return {}
