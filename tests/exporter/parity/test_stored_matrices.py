"""Matrices that are computed once for all calls: the same numbers, one tensor for all methods, no more than fits."""

from __future__ import annotations

import pytest
import torch

from edgec.exporter.parity.stored_matrices import hold_matrices
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.program import Program
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.palettize import Palettize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.contract import nodes_of
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.static_cache import StaticCache
from tests.passes.static_methods import CONTEXT, applied, cached, methods, run

_TABLES = WeightScheme(kind="lut", bits=4, group_rows=8, group_size=0, activation_bits=0)
_READS = (DEQUANTIZE, DEQUANTIZE_LUT)


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    """Methods over look-up tables and an 8-bit embedding."""
    rounded = applied(cached("llama"), [Palettize(default=_TABLES), QuantizeEmbedding()])
    return methods(rounded, [PositionTables(CONTEXT), StaticCache()])


def reads(program: Program) -> int:
    return len(nodes_of(program.graph, *_READS))


@pytest.mark.long
def test_the_numbers_are_the_same(programs: dict[str, Program]) -> None:
    assert reads(programs["decode"]) > 10
    once = hold_matrices(programs)
    assert reads(once["prefill"]) == reads(once["decode"]) == 0
    assert torch.equal(run(once), run(programs))
    assert reads(programs["decode"]) > 10, "the methods that were given stay as they were"


@pytest.mark.long
def test_methods_share_what_is_held(programs: dict[str, Program]) -> None:
    places = [
        {buffer.data_ptr() for name, buffer in program.graph.named_buffers() if name.startswith("held_")}
        for program in hold_matrices(programs).values()
    ]
    assert places[0] == places[1] != set()


def test_what_does_not_fit_is_computed_in_every_call(programs: dict[str, Program]) -> None:
    nothing = hold_matrices(programs, share=0.0)
    assert reads(nothing["decode"]) == reads(programs["decode"])
    assert torch.equal(run(nothing), run(programs))
