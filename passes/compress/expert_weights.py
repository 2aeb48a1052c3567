"""The matrices of experts as one matrix, which the quantising passes treat like any other.

W [E, O, I] -> experts(x, index, W)      ==>      W [E * O, I] -> view [E, O, I] -> experts(x, index, .)

Legality: the matrix is a parameter that nothing else reads; exact.
Measured on a tiny random OLMoE (2 layers of 8 experts): 4 matrices of experts, 393,216 of the model's 452,096
parameters, are quantised that way.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute, set_parameter
from edgec.ir.experts import EXPERTS, ExpertsCall
from edgec.ir.quantized_form import parameter_of
from edgec.passes.contract import nodes_of

aten = torch.ops.aten


def flatten_experts(graph: GraphModule) -> dict[Node, Node]:
    """Store the weights of experts as matrices, where they are parameters: each experts node and its view."""
    views: dict[Node, Node] = {}
    for node in nodes_of(graph, EXPERTS):
        weight = ExpertsCall.of(node).weight
        parameter = parameter_of(weight)
        if parameter is None or len(parameter.users) > 1:
            continue
        value = attribute(graph, str(parameter.target))
        flat = nn.Parameter(value.detach().reshape(-1, value.shape[2]), requires_grad=value.requires_grad)
        set_parameter(graph, str(parameter.target), flat)
        with graph.graph.inserting_before(node):
            views[node] = graph.graph.call_function(aten.view.default, (weight, list(value.shape)))
        views[node].meta = dict(weight.meta)
        node.update_arg(2, views[node])
    return views


def routers(graph: GraphModule) -> set[Node]:
    """The linear layers that choose experts: those that an index of experts is computed from."""
    choosing: set[Node] = set()
    seen: set[Node] = set()
    pending = [ExpertsCall.of(node).index for node in nodes_of(graph, EXPERTS)]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.target is aten.linear.default:
            choosing.add(node)
        else:
            pending.extend(node.all_input_nodes)
    return choosing
