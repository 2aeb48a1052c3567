"""Find which dimension of each value in a graph has one entry per token, by running the graph on shapes alone.

The graph runs twice over fake tensors, for two tokens and for three. A dimension that is 2 the first time and 3 the
second holds a row per token; a size that differs in any other way (heads x tokens, flattened) follows no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Interpreter, Node

from edgec.ir.attributes import attribute
from edgec.ir.program import Dynamic, Interface

Sizes = tuple[int, ...]
_TOKENS = (2, 3)


@dataclass(frozen=True)
class Rows:
    """How one value depends on the number of tokens.

    Attributes:
        sizes: its shape for two tokens; of a tuple, that of its first tensor; () for a number.
        dim: the dimension with a row per token, or None.
        regular: whether the number of tokens shows nowhere else.
        count: whether the value is the number of tokens itself.
    """

    sizes: Sizes
    dim: int | None = None
    regular: bool = True
    count: bool = False

    @property
    def rank(self) -> int:
        """The value's number of dimensions."""
        return len(self.sizes)


def row_shapes(graph: GraphModule, interface: Interface) -> dict[Node, Rows]:
    """The rows of every value; tensors are not computed."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with FakeTensorMode(shape_env=ShapeEnv()) as mode, torch.no_grad():
        # The graph's own tensors as shapes: an operator over real ones alone would be computed even in this mode.
        held = (node for node in graph.graph.nodes if node.op == "get_attr")
        parameters = {node: mode.from_tensor(attribute(graph, str(node.target)), static_shapes=True) for node in held}
        two = _run(graph, interface, _TOKENS[0], parameters)
        three = _run(graph, interface, _TOKENS[1], {node: two[node] for node in _constants(graph)})
    return {node: _rows(value, three.get(node, value)) for node, value in two.items()}


def _constants(graph: GraphModule) -> list[Node]:
    """Parameters and what is computed from them alone: the same for any number of tokens."""
    constants: dict[Node, None] = {}
    for node in graph.graph.nodes:
        computed = node.op == "call_function" and bool(node.all_input_nodes)
        if node.op == "get_attr" or (computed and all(source in constants for source in node.all_input_nodes)):
            constants[node] = None
    return list(constants)


def _rows(two: Any, three: Any) -> Rows:
    if isinstance(two, (tuple, list)):
        parts = [_rows(a, b) for a, b in zip(two, three, strict=True)]
        same = all(part.regular and part.dim == parts[0].dim for part in parts)
        return Rows(parts[0].sizes, parts[0].dim, same) if parts else Rows(())
    if isinstance(two, Tensor):
        return _tensor_rows(tuple(two.shape), tuple(three.shape))
    # A number that was read from a tensor is a symbol, not a size.
    changed = type(two) is int and two != three
    count = changed and (two, three) == _TOKENS
    return Rows((), None, count or not changed, count)


def _tensor_rows(two: Sizes, three: Sizes) -> Rows:
    changed = [i for i, (a, b) in enumerate(zip(two, three, strict=True)) if a != b]
    if len(changed) == 1 and (two[changed[0]], three[changed[0]]) == _TOKENS:
        return Rows(two, changed[0])
    return Rows(two, None, not changed)


def _run(graph: GraphModule, interface: Interface, tokens: int, known: Mapping[Node, Any]) -> dict[Node, Any]:
    inputs = [torch.empty([_size(d, tokens) for d in tensor.shape], dtype=tensor.dtype) for tensor in interface.inputs]
    recorder = _Recorder(graph)
    recorder.run(*inputs, initial_env=dict(known))
    return {**known, **recorder.values}


def _size(dimension: int | Dynamic, tokens: int) -> int:
    if isinstance(dimension, int):
        return dimension
    return tokens if dimension.name == "S" else 1


class _Recorder(Interpreter):
    """An interpreter that keeps the value of every node."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.values: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        self.values[n] = super().run_node(n)
        return self.values[n]
