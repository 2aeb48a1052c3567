"""Sines and cosines of positions of three parts, looked up in tables."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.ir.graph_run import first_output
from edgec.ir.program import Program
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.static.half_precision import HalfPrecision
from edgec.passes.static.mrope_tables import MropeTables

aten = torch.ops.aten
SLOTS, TOKENS = 4096, 8


class Turned(nn.Module):
    """Rotates as Qwen2-VL does: a run of frequencies for each part; ``mixes``: columns that follow two parts."""

    def __init__(self, mixes: bool = False) -> None:
        super().__init__()
        self.mixes = mixes
        self.frequencies: Tensor
        self.register_buffer("frequencies", 1e4 ** (-torch.arange(8) / 8.0))

    def forward(self, mrope_positions: Tensor, x: Tensor) -> Tensor:
        angles = mrope_positions[:, :, None].float() * self.frequencies
        if self.mixes:
            return x * (angles[1] + angles[2]).cos()
        cos, sin = (
            torch.cat([part[i] for i, part in enumerate(value.split([2, 3, 3], -1))], -1)
            for value in (angles.cos(), angles.sin())
        )
        return x * cos + x.flip(-1) * sin


def captured(mixes: bool = False) -> Program:
    inputs = (torch.zeros(3, TOKENS, dtype=torch.int32), torch.zeros(TOKENS, 8))
    return capture_module(Turned(mixes).eval(), inputs)


def drawn(slots: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    places = torch.randint(slots, (3, TOKENS), generator=generator, dtype=torch.int32)
    return places, torch.randn(TOKENS, 8, generator=generator)


def test_each_column_is_read_at_the_part_that_it_follows() -> None:
    before = captured()
    after = run_pass(before, MropeTables(SLOTS))
    assert not nodes_of(after.graph, aten.cos.default, aten.sin.default)
    inputs = drawn(SLOTS)
    torch.testing.assert_close(after.graph(*inputs), before.graph(*inputs), atol=1e-6, rtol=0)
    tables = [name for name, _ in after.graph.named_buffers() if name.startswith("mrope_table_")]
    assert len(tables) == 2  # cosine and sine


def test_late_positions_are_exact_in_half_precision() -> None:
    before = captured()
    places, x = drawn(SLOTS)
    places = places.clamp_min(3000)
    wanted = first_output(before.graph(places, x))
    half = run_pass(run_pass(before, MropeTables(SLOTS)), HalfPrecision())
    computed = run_pass(before, HalfPrecision())
    near, far = ((first_output(each.graph(places, x)).float() - wanted).abs().max() for each in (half, computed))
    # Values up to 3, of 11 bits; an angle of 3000 is off by a whole radian.
    assert float(near) < 5e-3 and float(far) > 0.1


def test_what_follows_two_parts_at_once_stays() -> None:
    before = captured(mixes=True)
    after = run_pass(before, MropeTables(SLOTS))
    assert nodes_of(after.graph, aten.cos.default)
    inputs = drawn(SLOTS)
    assert torch.equal(first_output(after.graph(*inputs)), first_output(before.graph(*inputs)))
