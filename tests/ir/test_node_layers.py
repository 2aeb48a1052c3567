"""Layers of nodes: named by the capture, followed through passes that write them out, matched by patterns."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.ir.node_layers import layer_of, matches
from edgec.passes.contract import run_passes
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.linear_to_conv2d import LinearToConv2d


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(32), nn.Sequential(nn.Linear(32, 32), nn.Softmax(-1))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(self.norm(x)) * x.sum(-1, keepdim=True)
        return result


def test_layers_are_followed_through_passes_that_write_them_out() -> None:
    program = capture_module(Block().eval(), (torch.randn(1, 4, 32),))
    named = {"norm:layer_norm", "inner.0:linear", "inner.1:softmax", ":sum", ":mul"}
    assert set(filter(None, map(layer_of, program.graph.graph.nodes))) == named
    after = run_passes(program, [Fp16SafeNorm(), LinearToConv2d()]).graph
    calls = [node for node in after.graph.nodes if node.op == "call_function"]
    assert len(calls) > 15 and {layer_of(node) for node in calls} == named
    # The norm's square root and the convolution that the linear layer became.
    (root,) = [node for node in calls if node.target is torch.ops.aten.rsqrt.default]
    (matrix,) = [node for node in calls if node.target is torch.ops.aten.conv2d.default]
    assert layer_of(root) == "norm:layer_norm" and layer_of(matrix) == "inner.0:linear"


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("encoder", True),
        ("encoder.0.norm", True),
        ("encoder.*.norm", True),
        ("*", True),
        ("encoder.0.norm:layer_norm", True),
        ("*:layer_norm", True),
        ("encoder.0:layer_norm", False),
        ("encoder.0.norm:sum", False),
        ("norm", False),
        ("encoder.1", False),
        (":layer_norm", False),
    ],
)
def test_a_pattern_names_a_module_or_an_operator_of_one(pattern: str, meant: bool) -> None:
    assert matches("encoder.0.norm:layer_norm", pattern) is meant
