"""Rotary embeddings of every family become one operator with the same numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edgec.exporter.parity.execution import run_program
from edgec.ir.call_plan import call_plan
from edgec.ir.operators import ROPE
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.fuse.fuse_rope import FuseRope
from tests.passes.decoders import ROWS, captured, tokens

FAMILIES: list[tuple[str, int, dict[str, Any]]] = [
    ("llama", 4, {}),
    ("qwen3", 4, {}),
    ("gemma3_text", 4, {}),
    ("phi3", 4, {}),
    ("phi3", 4, {"partial_rotary_factor": 0.5}),
    ("smollm3", 4, {}),
]


@pytest.mark.long
@pytest.mark.parametrize(("family", "ropes", "options"), FAMILIES)
def test_every_rotation_is_found_and_nothing_changes(family: str, ropes: int, options: dict[str, Any]) -> None:
    program = captured(family, **options)
    result = run_pass(program, FuseRope())
    assert len(nodes_of(result.graph, ROPE)) == ropes
    assert not nodes_of(result.graph, torch.ops.aten.neg.default)
    plan = call_plan(24, 12, ROWS)
    wanted = run_program(program, tokens(), plan)
    # The same float32 operations in the same order.
    assert torch.allclose(run_program(result, tokens(), plan), wanted, atol=1e-6 * float(wanted.abs().max()))


@pytest.mark.long
def test_a_rotation_the_other_way_is_left_alone() -> None:
    program = captured("llama")
    negation = nodes_of(program.graph, torch.ops.aten.neg.default)[0]
    half = negation.args[0]
    cat = next(iter(negation.users))
    cat.update_arg(0, [half, cat.args[0][1]])  # type: ignore[index]
    try:
        assert len(nodes_of(run_pass(program, FuseRope()).graph, ROPE)) == 3
    finally:
        cat.update_arg(0, [negation, cat.args[0][1]])  # type: ignore[index]
