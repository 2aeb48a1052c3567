"""Have coremltools leave in float32 what a graph computes in float32.

    to(float32) -> sum float32 -> to(float16)          ==>          cast fp32 -> reduce_sum fp32 -> cast fp16

By itself it makes every operator float16, whatever its operands were. It notes with each operator of a Core ML program
the number of the graph's node that it was made of (``debug_handle``), by which a node's own type is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

_HANDLE = "debug_handle"
_CASTS = ("to", "_to_copy")


def compute_precision(exported: ExportedProgram) -> Any:
    """The ``compute_precision`` of a conversion: float16, but for nodes of the graph that are float32."""
    import coremltools as ct

    kept = _numbered(exported)
    return ct.transform.FP16ComputePrecision(op_selector=_made_of_others(kept)) if kept else ct.precision.FLOAT16


def _numbered(exported: ExportedProgram) -> Collection[int]:
    """Number the nodes of a graph where some compute in float32; the numbers of these."""
    nodes = list(exported.graph.nodes)
    kept = {place for place, node in enumerate(nodes) if _is_float(node)}
    for place, node in enumerate(nodes if kept else ()):
        node.meta[_HANDLE] = place
    return kept


def _is_float(node: Node) -> bool:
    """Whether a call takes or gives float32 values, and does not only change their type."""
    if node.op != "call_function" or _name(node) in _CASTS:
        return False
    return any(_holds_float(each.meta.get("val")) for each in (node, *node.all_input_nodes))


def _name(node: Node) -> str:
    return str(getattr(node.target, "__name__", "")).split(".")[0]


def _holds_float(value: Any) -> bool:
    values = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(each, Tensor) and each.dtype is torch.float32 for each in values)


def _made_of_others(kept: Collection[int]) -> Callable[[Any], bool]:
    """Whether an operator of a Core ML program is made float16."""
    from coremltools.converters.mil.mil.scope import ScopeSource

    def chosen(operation: Any) -> bool:
        handles = operation.scopes.get(ScopeSource.EXIR_DEBUG_HANDLE) or [None]
        return handles[0] not in kept

    return chosen


@contextmanager
def islands_in_delegates() -> Iterator[None]:
    """Have ExecuTorch's Core ML delegates compute in float32 what their graphs do: its options name one precision."""
    from executorch.backends.apple.coreml.compiler import CoreMLBackend

    name = "_convert_to_mlmodel"
    plain = CoreMLBackend.__dict__[name]
    setattr(CoreMLBackend, name, staticmethod(_with_precision(CoreMLBackend, getattr(CoreMLBackend, name))))
    try:
        yield
    finally:
        setattr(CoreMLBackend, name, plain)


def _with_precision(backend: Any, convert: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(convert)
    def converted(edge_program: ExportedProgram, *args: Any, **kwargs: Any) -> Any:
        chosen, name = compute_precision(edge_program), "model_compute_precision_from_compile_specs"
        plain = backend.__dict__[name]
        setattr(backend, name, staticmethod(lambda specs: chosen))
        try:
            return convert(edge_program, *args, **kwargs)
        finally:
            setattr(backend, name, plain)

    return converted
