"""edgec: a deployment compiler for phones.

import edgec
bundle = edgec.export("path/to/model", target="host")
print(edgec.load(bundle).generate("Once upon a time", max_new_tokens=40).text)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgec.processor_share import take_share

if TYPE_CHECKING:
    from edgec.errors import BudgetError, EdgecError, InputError, ToolError
    from edgec.exporter.api import export
    from edgec.exporter.apps import embed
    from edgec.exporter.resolve.planned_api import plan
    from edgec.installation import __version__
    from edgec.runtime_py.bench.bench import bench
    from edgec.runtime_py.model import load

_PUBLIC = {
    "BudgetError": "edgec.errors",
    "EdgecError": "edgec.errors",
    "InputError": "edgec.errors",
    "ToolError": "edgec.errors",
    "__version__": "edgec.installation",
    "export": "edgec.exporter.api",
    "load": "edgec.runtime_py.model",
    "bench": "edgec.runtime_py.bench.bench",
    "embed": "edgec.exporter.apps",
    "plan": "edgec.exporter.resolve.planned_api",
}

take_share()

__all__ = [
    "BudgetError",
    "EdgecError",
    "InputError",
    "ToolError",
    "__version__",
    "bench",
    "embed",
    "export",
    "load",
    "plan",
]


def __dir__() -> list[str]:
    """The API alone: not the modules that it is made of."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import every part on first use: ``edgec --help`` stays light, and Ctrl-C meets little before ``main``."""
    if name in _PUBLIC:
        from edgec.quiet import quiet

        with quiet():
            return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'edgec' has no attribute {name!r}")
