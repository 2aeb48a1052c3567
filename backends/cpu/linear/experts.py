"""Experts of few bits as delegates of edgec's own backend, which reads the chosen matrices in place.

    x, index -> experts(view(dequantize_affine(W_int, scale)))      ==>      x, index -> EdgecExperts(key of a matrix)

Legality: as for a linear layer (weights.py); the rows of each expert are filled up to whole blocks, so that an expert
is a run of blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeProgramManager
from executorch.exir._serialize._named_data_store import NamedDataStore
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from edgec.backends.cpu.linear.layout import BlockRows, pack_matrix
from edgec.backends.cpu.linear.weights import StoredMatrix, input_of, matrix_fields, stored_matrix
from edgec.backends.cpu.regions.delegate import DelegateConstant, keep, raw_bytes
from edgec.backends.cpu.regions.outline import LoweredBackendModule, Outline, OutlinedOutput
from edgec.backends.cpu.regions.replace import replace_clusters
from edgec.ir.attributes import attribute
from edgec.ir.experts import EXPERTS, ExpertsCall
from edgec.passes.contract import nodes_of

aten = torch.ops.aten
BACKEND = "EdgecExperts"


@dataclass(frozen=True)
class ExpertsRegion:
    """One experts node that the backend runs.

    Attributes:
        node: the node.
        x: its input, before it was quantised per token if it is.
        read_as: how the matrix reads x, ``int8`` or ``float32``.
        matrix: its integers, [experts * rows, width].
        experts, rows: of its weight.
    """

    node: Node
    x: Node
    read_as: str
    matrix: StoredMatrix
    experts: int
    rows: int

    @property
    def inputs(self) -> tuple[Node, ...]:
        """What its delegate reads: x, the chosen experts, and the bias where there is one."""
        call = ExpertsCall.of(self.node)
        return (self.x, call.index, *([call.bias] if call.bias else []))

    @property
    def outputs(self) -> tuple[Node, ...]:
        """The node alone."""
        return (self.node,)


def experts_regions(graph: GraphModule) -> list[ExpertsRegion]:
    """The experts of a graph that the backend runs, in graph order."""
    return [region for node in nodes_of(graph, EXPERTS) if (region := _region(graph, node)) is not None]


def _region(graph: GraphModule, node: Node) -> ExpertsRegion | None:
    call = ExpertsCall.of(node)
    view, read = call.weight, input_of(call.x)
    if view.target is not aten.view.default or read is None:
        return None
    matrix = stored_matrix(graph, view.args[0])
    shape: Any = view.args[1]
    return None if matrix is None else ExpertsRegion(node, *read, matrix, int(shape[0]), int(shape[1]))


def replace_experts(
    graph: GraphModule, regions: Iterable[ExpertsRegion], block_rows: BlockRows, shelf: Path | None = None
) -> tuple[DelegateConstant, ...]:
    """Put delegates in place of the experts, and return what these store; ``shelf`` as in ``replace_clusters``."""
    return replace_clusters(graph, regions, "experts", lambda region: _delegate(graph, region, block_rows), shelf)


def _delegate(
    graph: GraphModule, region: ExpertsRegion, block_rows: BlockRows
) -> tuple[LoweredBackendModule, tuple[DelegateConstant, ...]]:
    values, affine = attribute(graph, region.matrix.name), region.matrix.affine(graph)
    filled, count = _filled(values, region, block_rows), values.numel()
    shape = region.matrix.packed(filled.shape[0], filled.shape[1], block_rows)
    minimums = None if affine.minimums is None else _filled(affine.minimums, region, block_rows)
    packed = pack_matrix(shape, filled, _filled(affine.scales, region, block_rows), minimums)
    store = NamedDataStore()
    kept = keep(store, region.matrix.name, f"int{shape.grid.bits}", raw_bytes(packed), count, region.matrix.beside)
    form: dict[str, int | str] = {"edgec.experts": 4, "inputs": region.read_as}
    fields = {**form, "experts": region.experts, "expert_rows": region.rows, **matrix_fields(shape), "data": kept.key}
    blob = "".join(f"{name}={value}\n" for name, value in fields.items()).encode()
    output = store.get_named_data_store_output()
    return LoweredBackendModule(_outline(region), BACKEND, blob, [], output), (kept,)


def put_experts_last(edge: EdgeProgramManager) -> None:
    """Order the named data of methods so that all experts lie together at the file's end.

    A system that reads ahead of what every token needs then reads into experts at one border, not beside each matrix.
    """
    parts = [part for name in edge.methods for part in edge.exported_program(name).graph_module.children()]
    delegates = [part for part in parts if isinstance(part, LoweredBackendModule) and part.backend_id == BACKEND]
    experts = {key for delegate in delegates for key in delegate.named_data_store_output.pte_data}
    store = edge._named_data_store
    store.pte_data = dict(sorted(store.pte_data.items(), key=lambda entry: entry[0] in experts))


def _filled(table: Tensor, region: ExpertsRegion, block_rows: BlockRows) -> Tensor:
    """A table with a row for each row of each expert, the rows of every expert filled up with zeros to whole blocks."""
    missing = -region.rows % block_rows
    by_expert = table.reshape(region.experts, region.rows, -1)
    return torch.nn.functional.pad(by_expert, (0, 0, 0, missing)).flatten(0, 1)


def _outline(region: ExpertsRegion) -> Outline:
    graph = Graph()
    call = ExpertsCall.of(region.node)
    inputs = [graph.placeholder(f"x{i}") for i in range(3 if call.bias else 2)]
    graph.output((graph.call_function(EXPERTS, (*inputs[:2], inputs[0], inputs[2] if call.bias else None)),))
    choices = int(call.index.meta["val"].shape[1])
    return Outline(graph, (OutlinedOutput(torch.float32, ((0, 0), choices, region.rows)),))
