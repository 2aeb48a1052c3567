"""What a target leaves in float, and what it writes out step by step, is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import for_backend, with_standard_kernels
from edgec.exporter.stages.float_layers import float_layers, float_loops
from edgec.exporter.stages.module_orders import module_passes
from edgec.exporter.stages.unrolled_layers import unrolled_line
from edgec.exporter.stages.wider_layers import wider_line
from edgec.ir.program import Program
from edgec.passes.contract import run_passes


class SoundInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv1d(4, 16, 3)
        self.recurrent = nn.LSTM(16, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.last = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.recurrent(self.front(x).transpose(1, 2))[0])
        return result


def heard() -> Program:
    torch.manual_seed(0)
    return capture_module(SoundInput().eval(), (torch.randn(1, 4, 22),))


@pytest.mark.long
def test_convolutions_and_recurrent_layers_in_float_are_named_with_their_bytes() -> None:
    recipe = load_recipe("8bit")
    line = wider_line(float_layers(heard(), recipe, 32))
    assert line.startswith(f"1 convolution in float, {16 * 4 * 3 * 4} bytes (front.weight: ")
    # Two layers in two directions: four gates of 8 that read 16 inputs and 8 hidden values.
    assert f"; 8 recurrent matrices in float, {4 * 32 * (16 + 8) * 4:,} bytes (" in line
    assert sum(each.bytes for each in float_layers(heard(), recipe, 16)) * 2 == sum(
        each.bytes for each in float_layers(heard(), recipe, 32)
    )
    # What a rule leaves in float was asked for.
    assert "convolution" not in wider_line(float_layers(heard(), replace(recipe, rules=(("front*", None),)), 32))
    assert float_layers(heard(), load_recipe("float"), 32) == []


class Projected(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 8, num_layers=2, proj_size=3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x)[0]
        return result


def test_layers_that_are_written_out_are_counted() -> None:
    line = unrolled_line(capture_module(Projected().eval(), (torch.randn(20, 1, 4),)).graph)
    assert line.startswith("2 LSTM layers over 20 steps, with a projection") and "40 steps" in line
    assert unrolled_line(capture_module(nn.Linear(4, 4), (torch.randn(1, 4),)).graph) == ""


@pytest.mark.long
def test_loops_of_executorch_say_their_float_matrices() -> None:
    recipe = with_standard_kernels(for_backend(load_recipe("8bit"), "xnnpack"))
    program = run_passes(heard(), module_passes(recipe))
    assert unrolled_line(program.graph) == ""
    # Two layers in two directions: four gates of 8 that read 8 hidden values.
    assert f"4 recurrent matrices in float, {4 * 32 * 8 * 4:,} bytes (" in wider_line(float_loops(program, recipe))
    assert float_loops(program, load_recipe("float")) == []
