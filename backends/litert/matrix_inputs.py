"""Rounded matrices as inputs of a signature, while LiteRT's converter works.

    linear(x, W), W float32 [N, K]   ==>   linear(x, edgec_matrix_3)     an input; weights.py makes it a constant again

The converter copies, hashes and folds the floats of a constant in every signature, and multiplies factors around a
layer into them, which integers do not fit. Of an input it knows the shape alone: with Qwen3-0.6B's first 8 layers the
process had 1.1 GB after the conversion and had had 2.5 before it, where constants took it to 8.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

MATRIX: Final = "edgec_matrix_"
"""How the names of such inputs begin."""


def matrix_input(graph: GraphModule, name: str, value: Tensor) -> Node:
    """The input of a name, behind all others of the graph; ``value`` has its shape and dtype."""
    inputs = graph.graph.find_nodes(op="placeholder")
    known: Node | None = next((node for node in inputs if node.target == name), None)
    if known is not None:
        return known
    with graph.graph.inserting_after(inputs[-1]):
        made: Node = graph.graph.placeholder(name)
    made.meta["val"] = value
    return made


def empty_matrices(graph: GraphModule) -> Mapping[str, Tensor]:
    """A tensor of the right shape for each such input, in order; nobody reads or writes its memory."""
    return {
        str(node.target): torch.empty(node.meta["val"].shape)
        for node in graph.graph.find_nodes(op="placeholder")
        if str(node.target).startswith(MATRIX)
    }
