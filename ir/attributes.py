"""The tensors that a graph holds, by the names its nodes read them under."""

from __future__ import annotations

from typing import Any

from torch import nn


def attribute(graph: nn.Module, target: str) -> Any:
    """The tensor that a ``get_attr`` node names."""
    owner, _, leaf = target.rpartition(".")
    return getattr(graph.get_submodule(owner), leaf)
