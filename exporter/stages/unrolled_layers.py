"""The recurrent layers of a module that ExecuTorch writes out step by step, in words.

    3 LSTM layers over 160 steps are written out as 480 steps: --kernels edgec makes each layer one operator, ...

A speaker encoder of 1.4 million weights took 22 minutes and 6.2 GB to export so, and 82 CPU s and 0.5 GB as operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.fx import GraphModule

from edgec.passes.contract import nodes_of

aten = torch.ops.aten
_KINDS: Mapping[Any, str] = {aten.lstm.input: "LSTM", aten.gru.input: "GRU"}


def unrolled_line(graph: GraphModule) -> str:
    """What will be written out, and what saves it; empty where nothing will be."""
    found = Counter[tuple[str, int]]()
    for kind, layers, steps in _layers(graph):
        found[kind, steps] += layers
    if not found:
        return ""
    parts = [f"{n} {kind} layer{'s' if n > 1 else ''} over {steps} steps" for (kind, steps), n in found.items()]
    total = sum(layers * steps for (_, steps), layers in found.items())
    return (
        f"{' and '.join(parts)}: ExecuTorch's kernels have no such layer, so that {total} steps are written out; "
        "--kernels edgec makes each layer one operator, which saves most of the export's time, memory and operators: "
        "the app then needs edgec's kernels (docs/kernels.md)"
    )


def _layers(graph: GraphModule) -> Iterator[tuple[str, int, int]]:
    """The kind, the layers in both directions and the steps of each call."""
    for node in nodes_of(graph, *_KINDS):
        given: Any = node.args
        shape, count, both, batch_first = given[0].meta["val"].shape, given[4], given[7], given[8]
        yield _KINDS[node.target], count * (2 if both else 1), int(shape[1 if batch_first and len(shape) == 3 else 0])
