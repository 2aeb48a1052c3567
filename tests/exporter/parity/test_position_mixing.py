"""What carries tokens' values to other positions without a state is refused by name; what only looks like it is not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import Node

import edgec
from edgec.errors import InputError
from edgec.exporter.capture import decoder
from edgec.exporter.parity.position_mixing import refuse_mixed_positions
from edgec.ir.program import Program
from edgec.passes.contract import clone
from tests.families import Family, save
from tests.passes.decoders import captured

aten = torch.ops.aten


@torch.library.custom_op("edgec_test::unknown", mutates_args=())
def unknown(x: Tensor) -> Tensor:
    """An operator that edgec has never heard of."""
    return x.clone()


def between_layers(make: Callable[[Any, Node], Node]) -> Program:
    """A captured decoder with something put after its first addition to the residual stream."""
    program = captured("llama")
    graph = clone(program.graph)
    place = next(node for node in graph.graph.nodes if node.target is aten.add.Tensor and node.meta["val"].dim() == 3)
    with graph.graph.inserting_after(place):
        result = make(graph.graph, place)
    place.replace_all_uses_with(result, delete_user_cb=lambda user: user is not result)
    graph.recompile()
    return replace(program, graph=graph)


def call(function: Any, *arguments: Any) -> Callable[[Any, Node], Node]:
    def make(graph: Any, x: Node) -> Node:
        result: Node = graph.call_function(function, (x, *arguments))
        return result

    return make


@pytest.mark.long
def test_attention_alone_is_allowed() -> None:
    refuse_mixed_positions(captured("llama"))
    refuse_mixed_positions(captured("mistral", sliding_window=8))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (call(aten.cumsum.default, 1), "aten.cumsum"),
        (call(aten.roll.default, [1], [1]), "aten.roll"),
        (call(aten.flip.default, [1]), "aten.flip"),
        (call(torch.ops.edgec_test.unknown.default), "edgec_test.unknown"),
    ],
    ids=["scan", "shift", "reversal", "unknown operator"],
)
def test_what_reaches_over_positions_is_refused_by_name(make: Callable[[Any, Node], Node], name: str) -> None:
    with pytest.raises(InputError) as refused:
        refuse_mixed_positions(between_layers(make))
    assert refused.value.code == "E526"
    assert name in refused.value.what


def test_operators_within_a_position_are_allowed() -> None:
    refuse_mixed_positions(between_layers(call(aten.cumsum.default, 2)))
    refuse_mixed_positions(between_layers(call(aten.flip.default, [2])))


CONVOLUTIONS = Family("lfm2", {"layer_types": ["conv", "full_attention", "conv"]})


@pytest.mark.long
def test_a_convolution_that_nothing_recognised_is_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where transformers calls it by another name; within one prefill chunk only decoding would tell."""
    monkeypatch.setattr(decoder, "call_recurrences", lambda model: nullcontext())
    monkeypatch.setattr(decoder, "recognise_convolutions", lambda graph: None)
    folder = save(CONVOLUTIONS, tmp_path / "lfm2")
    with pytest.raises(InputError) as refused:
        edgec.export(folder, recipe="float", out=tmp_path / "x.edgec", context=64)
    assert refused.value.code == "E526"
    assert "conv1d" in refused.value.what
    assert not (tmp_path / "x.edgec").exists()
