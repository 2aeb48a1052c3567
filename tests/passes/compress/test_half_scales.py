"""Scales become float16 numbers where they were none, and all others stay to the bit."""

from __future__ import annotations

import torch

from edgec.ir.attributes import attribute, set_buffer
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.half_scales import HalfScales, as_half, scale_names
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import run_pass
from tests.passes.decoders import captured

SCHEME = WeightScheme(4, 32, activation_bits=0, scale_bits=16)


def _rounded() -> Program:
    return run_pass(captured(), Quantize(default=SCHEME, algorithm="rtn"))


def test_scales_of_usual_weights_stay() -> None:
    program = _rounded()
    names = scale_names(program.graph)
    assert names
    before = {name: attribute(program.graph, name).clone() for name in names}
    after = run_pass(program, HalfScales())
    assert all(torch.equal(attribute(after.graph, name), value) for name, value in before.items())


def test_a_tiny_scale_is_rounded_and_only_once() -> None:
    program = _rounded()
    name = scale_names(program.graph)[0]
    scale = attribute(program.graph, name).clone()
    # A bfloat16 number between two of float16's, which lie 2^-24 apart there.
    scale[0, 0] = 2.0**-23 * (1 + 2.0**-6)
    assert scale[0, 0].bfloat16().float() == scale[0, 0] != scale[0, 0].half().float()
    set_buffer(program.graph, name, scale)
    after = run_pass(program, HalfScales())
    held = attribute(after.graph, name)
    assert held[0, 0] == scale[0, 0].half().float() and torch.equal(held.flatten()[1:], scale.flatten()[1:])
    again = run_pass(after, HalfScales())
    assert torch.equal(attribute(again.graph, name), held)


def test_what_float16_cannot_reach_stays_as_do_products() -> None:
    large = float(torch.tensor(1e6).bfloat16())
    assert as_half(torch.tensor([large, 2.0])).tolist() == [large, 2.0]
    product = torch.tensor([0.0123]).half().float() * 101
    assert product != product.half().float() and torch.equal(as_half(product), product)
