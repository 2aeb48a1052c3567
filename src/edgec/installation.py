"""This installation of edgec: its version, where it was imported from, and the folder it may fill again at any time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__version__ = "0.1.0"
PACKAGE = Path(__file__).parent


def cache_root() -> Path:
    """``EDGEC_CACHE_DIR``, or ~/.cache/edgec."""
    return Path(os.environ.get("EDGEC_CACHE_DIR") or Path.home() / ".cache" / "edgec").expanduser()


def child_environment() -> Mapping[str, str]:
    """This process's environment, for a child that imports edgec from the same place."""
    paths = (str(PACKAGE.parent), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
