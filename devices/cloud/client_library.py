"""The services' own client libraries are extras."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from edgec.errors import EdgecError, InputError, ToolError

T = TypeVar("T")


def asked(ask: Callable[[], T], failed: Callable[[str], InputError]) -> T:
    """One call of a client, whose errors share no base with anything here.

    Args:
        ask: the call.
        failed: the error for a reason.
    """
    try:
        return ask()
    except EdgecError:
        raise
    except Exception as cause:
        raise failed(f"{type(cause).__name__}: {cause}") from cause


def not_installed(library: str, service: str, extra: str, cause: ImportError) -> ToolError:
    """E567."""
    fix = f'pip install "edgec[{extra}]"'
    return ToolError(f"{library} is not installed.", where=service, why=str(cause), fix=fix, code="E567")
