"""Linear biases recognised by their values, whatever code computed them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from edgec.exporter.capture.key_bias import slopes_of, value_for

HEADS = 3


def graph_of(module: nn.Module) -> GraphModule:
    shapes = {
        "tokens": {1: torch.export.Dim("S", min=2, max=64)},
        "positions": {0: torch.export.Dim("S", min=2, max=64)},
    }
    inputs = (torch.zeros(1, 8, dtype=torch.long), torch.arange(8))
    made = torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False).module(check_guards=False)
    return GraphModule(made, made.graph)


class Biased(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1]).float()
        slopes = torch.tensor([0.5, 0.25, 0.125])[:, None, None]
        if self.kind == "last":
            places = places - (tokens.shape[1] - 1)
        if self.kind == "squared":
            places = places * places
        if self.kind == "tokens":
            places = tokens[0].float()
        return slopes * places


def bias_of(kind: str) -> tuple[GraphModule, Tensor | None]:
    graph = graph_of(Biased(kind))
    result = next(node for node in graph.graph.nodes if node.op == "output").all_input_nodes[0]
    return graph, slopes_of(graph, result, HEADS)


def test_a_bias_from_any_origin_has_its_slopes() -> None:
    for kind in ("first", "last"):
        _, slopes = bias_of(kind)
        assert slopes is not None and slopes.tolist() == [0.5, 0.25, 0.125]


def test_a_bias_that_is_not_linear_or_depends_on_tokens_is_none() -> None:
    assert bias_of("squared")[1] is None
    graph, slopes = bias_of("tokens")
    assert slopes is None
    node = next(node for node in graph.graph.nodes if node.op == "output").all_input_nodes[0]
    assert value_for(graph, node, 5) is None
