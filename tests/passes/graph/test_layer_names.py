"""Names of layers for messages about values."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme, lut
from edgec.passes.cleanup.fake_values import FakeValues
from edgec.passes.compress.palettize import Palettize
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import run_pass
from edgec.passes.graph.layer_names import layer_name, plain_name
from edgec.passes.static.linear_to_conv2d import LinearToConv2d

aten = torch.ops.aten


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gate, self.up, self.down = (nn.Linear(64, 64, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))
        return y


def _names(*passes: object) -> dict[object, str]:
    program: Program = capture_module(Mlp().requires_grad_(False), (torch.ones(1, 2, 64),))
    for each in passes:
        program = run_pass(program, each)  # type: ignore[arg-type]
    return {node.target: layer_name(node) for node in program.graph.graph.nodes if node.op == "call_function"}


def test_a_sum_belongs_to_what_was_added_and_a_product_to_the_nearest_layer() -> None:
    names = _names()
    assert names[aten.add.Tensor] == "down" and names[aten.mul.Tensor] == "up" and names[aten.silu.default] == "gate"


def test_names_stay_when_weights_take_other_forms() -> None:
    for rounding in (Quantize((), WeightScheme(8, 0, activation_bits=0)), Palettize((), lut(4, 8))):
        assert _names(rounding, FakeValues(), LinearToConv2d())[aten.add.Tensor] == "down"


def test_a_value_of_no_layer_has_the_name_of_its_node() -> None:
    program = capture_module(nn.ReLU(), (torch.ones(2),))
    (node,) = (node for node in program.graph.graph.nodes if node.op == "call_function")
    assert layer_name(node) == node.name


def test_what_passes_and_the_capture_add_to_a_name_is_left_out() -> None:
    assert plain_name("decoder.model.layers.3.mlp.down_proj.weight_int_conv_float") == "model.layers.3.mlp.down_proj"
    assert plain_name("model.norm") == "model.norm"
