"""LSTM and GRU layers as operators with a loop: the same numbers, whatever their layout, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from edgec.ir.program import Program
from edgec.ir.recurrent_layers import WEIGHT
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import nodes_of, run_pass, run_passes
from edgec.passes.fuse.fuse_recurrent_layers import FuseRecurrentLayers
from tests.passes.static.test_merge_dimensions import program_of
from tests.passes.static.test_unroll_recurrences import HIDDEN, OPTIONS, WIDTH, inputs_of, seeded

aten = torch.ops.aten


def fused(kind: Any, options: dict[str, Any], stated: bool) -> tuple[Program, Program, list[Any]]:
    model, inputs = seeded(kind, WIDTH, HIDDEN, **options), inputs_of(kind, options, stated)
    program = run_pass(program_of(model, *inputs), RemoveNoops())
    return program, run_pass(program, FuseRecurrentLayers()), inputs


@pytest.mark.long
@pytest.mark.parametrize("stated", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("asked", OPTIONS)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_every_layer_and_direction_is_one_operator(kind: Any, asked: str, stated: bool) -> None:
    options = OPTIONS[asked]
    program, after, inputs = fused(kind, options, stated)
    layers = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    assert len(nodes_of(after.graph, *WEIGHT)) == len(nodes_of(after.graph, aten.linear.default)) == layers
    with torch.no_grad():
        pairs = zip(*(torch.utils._pytree.tree_leaves(each.graph(*inputs)) for each in (program, after)), strict=True)
    for one, other in pairs:
        # The same sums in another order.
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    again = run_passes(after, [FuseRecurrentLayers()])
    assert len(again.graph.graph.nodes) == len(after.graph.graph.nodes)


@pytest.mark.parametrize(("kind", "options"), [(nn.LSTM, {"proj_size": 2}), (nn.RNN, {})])
def test_projections_and_plain_layers_are_left(kind: Any, options: dict[str, Any]) -> None:
    program, after, _ = fused(kind, options, False)
    assert [node.target for node in after.graph.graph.nodes] == [node.target for node in program.graph.graph.nodes]
