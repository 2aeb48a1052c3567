"""The tensors that a graph holds, by the names under which its ``get_attr`` nodes read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.fx import GraphModule, Node

_TRANSPOSED = "edgec_transposed"


def owner_of(graph: nn.Module, target: str) -> tuple[nn.Module, str]:
    """The module that holds the tensor named ``target``, and the tensor's name in that module."""
    owner, _, leaf = target.rpartition(".")
    return graph.get_submodule(owner), leaf


def attribute(graph: nn.Module, target: str) -> Any:
    """The tensor that a ``get_attr`` node names."""
    return getattr(*owner_of(graph, target))


def set_buffer(graph: nn.Module, target: str, value: Tensor) -> None:
    """Register a buffer under its full name."""
    module, leaf = owner_of(graph, target)
    module.register_buffer(leaf, value)


def set_parameter(graph: nn.Module, target: str, value: nn.Parameter) -> None:
    """Register a parameter under its full name; it replaces any tensor of that name."""
    module, leaf = owner_of(graph, target)
    for table in (module._parameters, module._buffers, module.__dict__):
        table.pop(leaf, None)
    module.register_parameter(leaf, value)


def set_transposed(graph: GraphModule, target: str, value: Tensor) -> None:
    """Register a parameter under its full name that the checkpoint holds with its last two dimensions exchanged."""
    set_parameter(graph, target, nn.Parameter(value, requires_grad=False))
    graph.meta[_TRANSPOSED] = transposed(graph) ^ {target}


def transposed(graph: GraphModule) -> frozenset[str]:
    """The parameters that the checkpoint holds with their last two dimensions exchanged."""
    names: frozenset[str] = graph.meta.get(_TRANSPOSED, frozenset())
    return names


def read_shared(graph: GraphModule, target: str, make: Callable[[], Tensor]) -> Node:
    """A ``get_attr`` of a tensor that only its first reader has to make: a parameter or a buffer, as ``make`` says."""
    module, leaf = owner_of(graph, target)
    if not hasattr(module, leaf):
        value = make()
        if isinstance(value, nn.Parameter):
            module.register_parameter(leaf, value)
        else:
            module.register_buffer(leaf, value)
    return graph.graph.get_attr(target)


def remove(graph: nn.Module, target: str) -> None:
    """Delete a tensor by its full name."""
    delattr(*owner_of(graph, target))
