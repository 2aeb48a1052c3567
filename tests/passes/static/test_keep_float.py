"""Layers that stay float32 in a float16 graph: casts around them, their weights, and the rest as before."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.ir.float_islands import is_kept, kept_constants
from edgec.ir.program import Program
from edgec.passes.contract import run_passes
from edgec.passes.static.half_precision import HalfPrecision
from edgec.passes.static.keep_float import KeepFloat
from tests.exporter.float_layers import loud

aten = torch.ops.aten


def halved(*layers: str) -> Program:
    module, inputs = loud()
    return run_passes(capture_module(module, inputs), [*([KeepFloat(layers)] if layers else []), HalfPrecision()])


def test_a_kept_layer_computes_in_float32_with_its_own_weights() -> None:
    graph = halved("power").graph
    kept = [node for node in graph.graph.nodes if is_kept(node) and node.target is not aten.to.dtype]
    assert [node.target for node in kept] == [aten.mul.Tensor, aten.mul.Tensor, aten.sum.dim_IntList, aten.mul.Tensor]
    assert kept_constants(graph) == {"power.weight"}
    dtypes = {name: value.dtype for name, value in graph.named_parameters()}
    assert dtypes.pop("power.weight") is torch.float32 and set(dtypes.values()) == {torch.float16}
    _, (x,) = loud()
    (got,), (plain,) = graph(x), halved().graph(x)
    module, _ = loud()
    with torch.no_grad():
        wanted = module(x)
    assert not bool(plain.isfinite().all()), "the layer overflows float16"
    # Of the largest output: three layers that keep 11 bits.
    assert got.dtype is torch.float16 and float((got - wanted).abs().max() / wanted.abs().max()) < 5e-3


def test_a_kept_layer_reads_the_input_itself() -> None:
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sqrt() * 1e-3

    x = torch.full((1, 4), 1e8)
    program = capture_module(Root(), (x,))
    graph = run_passes(program, [KeepFloat((":sqrt", ":mul")), HalfPrecision()]).graph
    # 1e8 is beyond float16; its square root times a thousandth is 10.
    torch.testing.assert_close(graph(x)[0], torch.full((1, 4), 10.0, dtype=torch.float16), atol=0.01, rtol=0)


def test_parts_of_a_kept_result_are_kept() -> None:
    class Parts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            first, second = x.split(2, -1)
            result: Tensor = first + second
            return result

    program = capture_module(Parts(), (torch.randn(1, 4),))
    graph = run_passes(program, [KeepFloat((":split",)), HalfPrecision()]).graph
    x = torch.randn(1, 4)
    torch.testing.assert_close(graph(x)[0].float(), x[:, :2] + x[:, 2:], atol=4e-3, rtol=0)


def test_a_name_that_no_layer_has_is_refused() -> None:
    with pytest.raises(InputError, match="'powr'") as refused:
        halved("powr")
    assert refused.value.code == "E882" and "power" in refused.value.fix
