"""Norms of every family become one operator with the same numbers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgec.exporter.capture.module import capture_module
from edgec.exporter.parity.execution import run_program
from edgec.ir.call_plan import call_plan
from edgec.ir.operators import RMS_NORM
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from tests.passes.decoders import ROWS, captured, tokens

RSQRT = torch.ops.aten.rsqrt.default


GEMMA4 = {
    "num_kv_shared_layers": 0,
    "global_head_dim": 16,
    "vocab_size_per_layer_input": 96,
    "hidden_size_per_layer_input": 8,
}


@pytest.mark.long
def test_norms_with_a_power_in_place_of_the_root_are_found() -> None:
    program = captured("gemma4_text", **GEMMA4)
    result = run_pass(program, FuseRmsNorm())
    assert len(nodes_of(result.graph, RMS_NORM)) == 18
    assert not nodes_of(result.graph, torch.ops.aten.pow.Tensor_Scalar)
    plan = call_plan(24, 12, ROWS)
    wanted = run_program(program, tokens(), plan)
    # The same float32 operations in the same order, but for the reciprocal of the root.
    assert torch.allclose(run_program(result, tokens(), plan), wanted, atol=1e-5 * float(wanted.abs().max()))


@pytest.mark.long
@pytest.mark.parametrize(
    ("family", "norms"), [("llama", 5), ("qwen3", 9), ("gemma2", 9), ("gemma3_text", 13), ("phi3", 5)]
)
def test_every_norm_is_found_and_nothing_changes(family: str, norms: int) -> None:
    program = captured(family)
    result = run_pass(program, FuseRmsNorm())
    assert len(nodes_of(result.graph, RMS_NORM)) == norms and not nodes_of(result.graph, RSQRT)
    plan = call_plan(24, 12, ROWS)
    wanted = run_program(program, tokens(), plan)
    # The same float32 operations in the same order.
    assert torch.allclose(run_program(result, tokens(), plan), wanted, atol=1e-6 * float(wanted.abs().max()))


@pytest.mark.long
def test_norms_over_heads_can_be_left_to_standard_kernels() -> None:
    result = run_pass(captured("qwen3"), FuseRmsNorm(heads=False))
    assert len(nodes_of(result.graph, RMS_NORM)) == 5 and len(nodes_of(result.graph, RSQRT)) == 4


@pytest.mark.long
def test_a_norm_with_a_second_reader_inside_stays() -> None:
    program = captured("llama")
    graph = run_pass(program, FuseRmsNorm()).graph
    before = len(nodes_of(graph, RMS_NORM))
    rsqrt = nodes_of(program.graph, RSQRT)[0]
    product = next(iter(rsqrt.users))
    with program.graph.graph.inserting_after(product):
        again = program.graph.graph.call_function(torch.ops.aten.add.Tensor, (product, rsqrt))
        again.meta = dict(product.meta)
    reader = next(user for user in product.users if user is not again)
    reader.replace_input_with(product, again)
    try:
        assert len(nodes_of(run_pass(program, FuseRmsNorm()).graph, RMS_NORM)) == before - 1
    finally:
        reader.replace_input_with(again, product)
        program.graph.graph.erase_node(again)


def test_a_norm_over_a_transposed_value_of_rank_three_keeps_its_transposition() -> None:
    class Projector(nn.Module):
        """Gemma 3's: channels come first, and the norm goes over them."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.linspace(0.5, 2, 6), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            turned = x.transpose(1, 2)
            return turned * torch.rsqrt(turned.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight

    module, x = Projector(), torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(0))
    program = run_pass(capture_module(module, (x,)), FuseRmsNorm())
    assert nodes_of(program.graph, RMS_NORM)
    # The same sums of six squares.
    torch.testing.assert_close(program.graph(x)[0], module(x), atol=1e-6, rtol=0)
