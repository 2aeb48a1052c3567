"""Counting the instructions of the kernels of arm64: floors under what they do per instruction, and missing tools."""

from __future__ import annotations

import shutil

import pytest

from benchmarks import arm64_instructions
from edgec.errors import ToolError

TOKENS = (1, 2, 4, 20)
# 4 bits in groups of 32 and 2 bits in groups of 64.
SCHEMES = (arm64_instructions.SCHEMES[0], arm64_instructions.SCHEMES[2])
# A few per cent below what GCC 12 and Clang 22 reach; unrolled loops that spill their sums are far below.
FLOORS = {
    ("i8mm", SCHEMES[0]): (4.4, 7.6, 9.8, 10.2),
    ("i8mm", SCHEMES[1]): (5.2, 7.5, 9.4, 9.5),
    ("dotprod", SCHEMES[0]): (4.4, 5.8, 6.3, 7.0),
    ("dotprod", SCHEMES[1]): (5.2, 6.0, 6.4, 7.2),
}


@pytest.mark.slow
def test_few_instructions_multiply_few_bits() -> None:
    try:
        counts = arm64_instructions.count(SCHEMES, TOKENS)
    except ToolError as error:
        pytest.skip(str(error))
    for (isa, scheme), floors in FLOORS.items():
        reached = [row.products for row in counts if (row.kernel, row.scheme) == (isa, scheme.name)]
        assert all(figure >= floor for figure, floor in zip(reached, floors, strict=True)), (isa, scheme, reached)
    assert all(row.quantisation <= 4 * row.tokens * arm64_instructions.WIDTH for row in counts)
    text = "\n".join(arm64_instructions.table(counts))
    assert "no time is claimed" in text and "| 4 bits, groups of 32 |" in text


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert arm64_instructions.main([]) == 3
    assert "compiler" in capsys.readouterr().err
