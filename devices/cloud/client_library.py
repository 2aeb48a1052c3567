"""The services' own client libraries are extras."""

from __future__ import annotations

from edgec.errors import ToolError


def not_installed(library: str, service: str, extra: str, cause: ImportError) -> ToolError:
    """E567."""
    fix = f'pip install "edgec[{extra}]"'
    return ToolError(f"{library} is not installed.", where=service, why=str(cause), fix=fix, code="E567")
