"""Put the inputs of layers into the order in which a checkpoint's integers have their columns (act-order).

    x -> linear(W)      ==>      x -> index_select(columns) -> linear(W[:, columns])

GPTQ with act-order rounds the columns whose inputs are largest first and groups them so; kernels read groups of
neighbours. Layers that read the same values were rounded in the same order, so that one selection serves them. Exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import read_shared
from edgec.ir.weight_decision import Decision
from edgec.passes.compress.rounding.stored_integers import column_order
from edgec.passes.graph.emit import Emitter

INDEX_SELECT = torch.ops.aten.index_select.default


def reorder_inputs(graph: GraphModule, decisions: Mapping[Node, Decision]) -> None:
    """Select the inputs of each layer whose matrix was kept in another order of its columns."""
    made: dict[tuple[Node, bytes], Node] = {}
    for layer, decision in decisions.items():
        order, source = column_order(graph, decision), layer.args[0]
        if order is None:
            continue
        assert isinstance(source, Node)
        key = source, order.numpy().tobytes()
        if key not in made:
            with graph.graph.inserting_before(layer):
                made[key] = _selected(graph, source, order, decision.name)
        layer.update_arg(0, made[key])


def _selected(graph: GraphModule, source: Node, order: Tensor, name: str) -> Node:
    columns = read_shared(graph, f"{name.replace('.', '_')}_columns", lambda: order)
    value = source.meta.get("val")
    if value is not None:
        columns.meta["val"] = value.new_empty(order.shape, dtype=torch.int64)
    return Emitter(graph.graph)(INDEX_SELECT, source, -1, columns)
