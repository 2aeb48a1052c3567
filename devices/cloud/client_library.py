"""Calls of the services' client libraries, which are optional dependencies (extras)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from edgec.errors import EdgecError, InputError, ToolError

T = TypeVar("T")


def asked(ask: Callable[[], T], failed: Callable[[str], InputError]) -> T:
    """Call a client library and turn whatever it raises into a typed error.

    Args:
        ask: the call.
        failed: makes the typed error from a reason.
    """
    try:
        return ask()
    except EdgecError:
        raise
    except Exception as cause:
        raise failed(f"{type(cause).__name__}: {cause}") from cause


def not_installed(library: str, service: str, extra: str, cause: ImportError) -> ToolError:
    """E567: a client library is not installed."""
    fix = f'pip install "edgec[{extra}]"'
    return ToolError(f"{library} is not installed.", where=service, why=str(cause), fix=fix, code="E567")
