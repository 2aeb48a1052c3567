"""The recurrent layers of a module that ExecuTorch writes out step by step, in words.

    1 LSTM layer with a projection over 160 steps is written out as 160 steps

Layers without a projection are loops (``passes/fuse/fuse_recurrent_layers.py``). Written out, a speaker encoder of 1.4
million weights took 22 minutes and 6.2 GB to export.
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
    """What will be written out; empty where nothing will be."""
    found = Counter[tuple[str, int]]()
    for kind, layers, steps in _layers(graph):
        found[kind, steps] += layers
    if not found:
        return ""
    parts = [f"{n} {kind} layer{'s' if n > 1 else ''} over {steps} steps" for (kind, steps), n in found.items()]
    total = sum(layers * steps for (_, steps), layers in found.items())
    return (
        f"{' and '.join(parts)}, with a projection of the hidden state (proj_size): no kernels here have such a layer, "
        f"so that {total} steps are written out, which takes time, memory and operators"
    )


def _layers(graph: GraphModule) -> Iterator[tuple[str, int, int]]:
    """The kind, the layers in both directions and the steps of each call."""
    for node in nodes_of(graph, *_KINDS):
        given: Any = node.args
        shape, count, both, batch_first = given[0].meta["val"].shape, given[4], given[7], given[8]
        yield _KINDS[node.target], count * (2 if both else 1), int(shape[1 if batch_first and len(shape) == 3 else 0])
