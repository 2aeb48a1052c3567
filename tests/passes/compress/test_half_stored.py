"""Scales and minimums of a checkpoint become float16 numbers where they were none; integers and zero points stay."""

from __future__ import annotations

from dataclasses import replace

import torch

from edgec.ir.attributes import attribute, set_buffer
from edgec.ir.kernel_grids import LINEAR_KERNELS
from edgec.ir.program import Program
from edgec.ir.quantized_form import RECORD, decisions_of
from edgec.ir.stored_forms import ZERO_BITS
from edgec.ir.weight_decision import Decision
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.half_stored import BEYOND_HALF, HalfStored
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import run_pass
from tests.passes.decoders import captured


def _stored(scale_bits: int) -> Program:
    """A decoder whose matrices are told to be a checkpoint's, with scales of ``scale_bits``."""
    lifted = WeightScheme(4, 32, symmetric=False, activation_bits=0, scale_bits=6)
    program = run_pass(captured(), Quantize(default=lifted, kernels=LINEAR_KERNELS))
    program.graph.meta[RECORD] = tuple(_as_stored(each, scale_bits) for each in decisions_of(program.graph))
    return program


def _as_stored(decision: Decision, scale_bits: int) -> Decision:
    if decision.used is None:
        return decision
    return replace(decision, used=replace(decision.used, stored="Q4_K", scale_bits=scale_bits))


def _held(program: Program, place: int) -> dict[str, torch.Tensor]:
    names = [decision.buffers[place] for decision in decisions_of(program.graph) if decision.used]
    return {name: attribute(program.graph, name) for name in names}


def test_products_are_rounded_and_it_is_said() -> None:
    program = _stored(6)
    assert HalfStored().concerns(program)
    after = run_pass(program, HalfStored())
    for place in (1, 2):
        for name, value in _held(program, place).items():
            assert torch.equal(attribute(after.graph, name), value.half().float())
    assert all(torch.equal(attribute(after.graph, name), value) for name, value in _held(program, 0).items())
    reasons = {decision.reason for decision in decisions_of(after.graph) if decision.used}
    assert BEYOND_HALF in reasons and not HalfStored().concerns(after)


def test_zero_points_stay_exact_multiples() -> None:
    program = _stored(ZERO_BITS)
    for decision in decisions_of(program.graph):
        if decision.used:
            scale = attribute(program.graph, decision.buffers[1]).half().float()
            set_buffer(program.graph, decision.buffers[1], scale)
            set_buffer(program.graph, decision.buffers[2], scale * -13)
    assert not HalfStored().concerns(program)


def test_what_edgec_rounds_itself_is_left_alone() -> None:
    lifted = WeightScheme(4, 32, symmetric=False, activation_bits=0, scale_bits=6)
    assert not HalfStored().concerns(run_pass(captured(), Quantize(default=lifted, kernels=LINEAR_KERNELS)))
