"""The versions an artifact depends on."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

_TOOLS = ("torch", "executorch", "torchao", "transformers", "tokenizers", "safetensors", "edgec")


@cache
def tool_versions(more: tuple[str, ...] = ()) -> dict[str, str]:
    """Name -> version of everything that shapes an artifact; ``more``: what a format adds."""
    return {name: _version(name) for name in (*_TOOLS, *more)}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
