"""Mixtures of experts are refused where nothing reads the chosen experts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from edgec.errors import InputError
from edgec.exporter.stages.decoder import refuse_experts
from edgec.ir.experts import EXPERTS
from edgec.passes.contract import clone, nodes_of
from tests.passes.decoders import captured


@pytest.mark.long
def test_targets_without_experts_refuse_them_and_take_the_rest() -> None:
    program = captured("llama")
    refuse_experts(program)
    graph = clone(program.graph)
    place = nodes_of(graph, torch.ops.aten.linear.default)[0]
    with graph.graph.inserting_after(place):
        graph.graph.call_function(EXPERTS, (place, place, place, None))
    with pytest.raises(InputError) as refused:
        refuse_experts(replace(program, graph=graph))
    assert refused.value.code == "E527" and "llama" in refused.value.where
