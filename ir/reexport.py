"""Trace a rewritten graph again, so that nobody maintains graph signatures or metadata by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule

from edgec.ir.program import Dynamic, Interface

UNPROVED = "Constraints violated"
"""Begins torch.export's message about sizes that it assumes something of."""
_ASSERTIONS = (torch.ops.aten._assert_scalar.default, torch.ops.aten._assert_tensor_metadata.default)
_EXAMPLES = {"S": 8, "K": 3, "E": 24}
# Of E a graph takes 1 away, and of what is left the same holds as of other sizes.
_LEAST = {"E": 3}


def example_inputs(interface: Interface) -> tuple[Tensor, ...]:
    """Inputs of legal shapes and values for tracing: token 0, positions from 0 on, rows from 0 on."""
    return tuple(_example(tensor.dtype, [_size(d) for d in tensor.shape]) for tensor in interface.inputs)


def dynamic_shapes(interface: Interface) -> dict[str, dict[int, Any]]:
    """torch.export's description of the varying dimensions.

    Sizes 0 and 1 are special to the tracer, which assumes at least 2; the artifact's kernels do not.
    """
    sizes = {d.name: d for tensor in interface.inputs for d in tensor.shape if isinstance(d, Dynamic)}
    least = {name: max(_LEAST.get(name, 2), d.low) for name, d in sizes.items()}
    dims = {name: torch.export.Dim(name, min=least[name], max=d.high) for name, d in sizes.items() if d.high > 2}
    return {
        tensor.name: {i: dims[d.name] for i, d in enumerate(tensor.shape) if isinstance(d, Dynamic) and d.name in dims}
        for tensor in interface.inputs
    }


def reexport(graph: GraphModule, interface: Interface) -> ExportedProgram:
    """``torch.export.export`` of a program's graph; buffers appear as mutated, every node gets its shape."""
    shapes = dynamic_shapes(interface)
    for node in graph.graph.nodes:
        # Where a node came from, through every trace so far: the tracer copies the whole chain with each node.
        node.meta.pop("from_node", None)
    with torch.no_grad():
        return export_any_size(graph, example_inputs(interface), tuple(shapes.values()))


def without_assertions(exported: ExportedProgram) -> ExportedProgram:
    """The program without checks of its sizes, which converters do not know; its inputs' ranges say the same."""
    graph = exported.graph
    for node in list(graph.nodes):
        if node.target in _ASSERTIONS:
            graph.erase_node(node)
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and not node.users:
            graph.erase_node(node)
    return exported


def export_proved(module: nn.Module, inputs: tuple[Tensor, ...], shapes: Any) -> ExportedProgram:
    """Export a module whose sizes torch.export can prove to fit for all inputs.

    Raises:
        Exception: whatever torch.export raises.
    """
    return torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False)


def export_any_size(module: nn.Module, inputs: tuple[Tensor, ...], shapes: Any) -> ExportedProgram:
    """Export a module; what torch.export assumes about sizes and cannot prove becomes assertions in the graph.

    It gives up where its algebra is too weak: ``S * min(64, 64 * S) == 64 * S`` holds for every S from 1 on.

    Raises:
        Exception: whatever torch.export raises.
    """
    try:
        return export_proved(module, inputs, shapes)
    except Exception as error:
        if UNPROVED not in str(error):
            raise
    return torch.export.export(
        module, inputs, dynamic_shapes=shapes, strict=False, prefer_deferred_runtime_asserts_over_guards=True
    )


def _size(dimension: int | Dynamic) -> int:
    return dimension if isinstance(dimension, int) else dimension.example(_EXAMPLES.get(dimension.name, 4))


def _example(dtype: torch.dtype, shape: list[int]) -> Tensor:
    if len(shape) == 1:
        return torch.arange(shape[0], dtype=dtype)
    return torch.zeros(shape, dtype=dtype)
