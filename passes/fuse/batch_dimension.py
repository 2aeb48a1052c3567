"""Give rows between linear layers the batch dimension that kernels expect.

    x [T, C] -> layer_norm -> linear -> gelu -> linear -> + x                                     -> [T, C]
    ==>
    x -> unsqueeze [1, T, C] -> layer_norm -> linear -> gelu -> linear -> + -> squeeze            -> [T, C]

Image encoders that read images of any size (Qwen-VL) keep their patches as [T, C], and edgec's kernels read [1, T, C]:
without it XNNPACK multiplies, layer by layer. Legality: the operators treat each row by itself, or take operands of
equal size. Exact. Measured on a tiny random Qwen3-VL: features differ by 6.0e-7 of the largest from transformers'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.operators import RMS_NORM
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
LINEAR = aten.linear.default
_BY_ROW = frozenset(
    {
        RMS_NORM,
        aten.layer_norm.default,
        aten.add.Tensor,
        aten.sub.Tensor,
        aten.mul.Tensor,
        aten.gelu.default,
        aten.relu.default,
        aten.sigmoid.default,
        aten.silu.default,
        aten.tanh.default,
    }
)


@dataclass(frozen=True)
class BatchDimension:
    """Compute linear layers over [T, C], and what lies between them, over [1, T, C]; exact."""

    name: str = "batch_dimension"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: other layers are left as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite each linear layer over rows, and the operators by row after one."""
        for node in list(graph.graph.nodes):
            if _computes_rows(node):
                with graph.graph.inserting_before(node):
                    rows = _with_batch(Emitter(graph.graph), node)
                node.replace_all_uses_with(rows)
                graph.graph.erase_node(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """Check that no linear layer is left over rows."""
        assert not any(map(_computes_rows, nodes_of(program.graph, LINEAR)))


def _computes_rows(node: Node) -> bool:
    if node.target is LINEAR:
        return _is_rows(node.args[0])
    follows = node.target in _BY_ROW and any(map(_loses_batch, node.all_input_nodes))
    return follows and _is_rows(node)


def _is_rows(value: Any) -> bool:
    """Whether a value is [T, C], and not a parameter."""
    made = value.meta.get("val") if isinstance(value, Node) and value.op != "get_attr" else None
    return isinstance(made, Tensor) and made.dim() == 2


def _loses_batch(node: Node) -> bool:
    return node.target is aten.squeeze.dim and node.args[1:] == (0,) and _is_rows(node)


def _with_batch(emit: Emitter, node: Node) -> Node:
    """The node's result [T, C], computed over [1, T, C]."""
    read = 1 if node.target is LINEAR else len(node.args)
    args = [_batched(emit, value) for value in node.args[:read]]
    made = emit(node.target, *args, *node.args[read:], **node.kwargs)
    made.meta = {**node.meta, "val": made.meta["val"]}
    return emit(aten.squeeze.dim, made, 0)


def _batched(emit: Emitter, value: Any) -> Any:
    if not _is_rows(value):
        return value
    return value.args[0] if _loses_batch(value) else emit(aten.unsqueeze.default, value, 0)
