"""Counting the instructions of the kernels of arm64: floors under what they do per instruction, and missing tools."""

from __future__ import annotations

import shutil

import pytest

from benchmarks import arm64_instructions
from edgec.errors import ToolError

TOKENS = (1, 2, 4, 20)
# A few per cent below what GCC 12 and Clang 14 reach; unrolled loops that spill their sums are far below.
FLOORS = {"i8mm": (4.0, 7.6, 9.8, 10.2), "dotprod": (4.0, 5.1, 6.3, 7.0)}


@pytest.mark.slow
def test_few_instructions_multiply_four_bits() -> None:
    try:
        counts = arm64_instructions.count(arm64_instructions.SCHEMES[:1], TOKENS)
    except ToolError as error:
        pytest.skip(str(error))
    for isa, floors in FLOORS.items():
        reached = [row.products for row in counts if row.kernel == isa]
        assert all(figure >= floor for figure, floor in zip(reached, floors, strict=True)), (isa, reached)
    assert all(row.quantisation <= 4 * row.tokens * arm64_instructions.WIDTH for row in counts)
    text = "\n".join(arm64_instructions.table(counts))
    assert "no time is claimed" in text and "| 4 bits, groups of 32 |" in text


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert arm64_instructions.main([]) == 3
    assert "compiler" in capsys.readouterr().err
