"""What an artifact should hold: floats count where they were asked for, and where integers were they never do."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from edgec.errors import BudgetError
from edgec.exporter.capture.module import capture_module
from edgec.exporter.stages.weight_facts import expected_bytes, require_rounded, static_weight_facts
from edgec.ir.attributes import set_buffer
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme, lut
from edgec.passes.compress.palettize import Palettize
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.contract import Pass, nodes_of, run_passes
from tests.passes.decoders import captured

EIGHT = WeightScheme(8, 0, activation_bits=0)
TABLE_BYTES = 96 * 32 * 4
QUANTIZED = Quantize(default=WeightScheme(4, 32, activation_bits=0), lm_head=EIGHT)


def _rounded(*passes: Pass) -> Program:
    """A tied decoder with 96 rows of vocabulary, rounded."""
    return run_passes(captured("llama", tie_word_embeddings=True), passes)


def _held_and_expected(program: Program) -> tuple[int, int]:
    facts = static_weight_facts({"forward": program}, half=False)
    return sum(fact.bytes for fact in facts), expected_bytes(facts, program)


@pytest.mark.long
@pytest.mark.parametrize(
    "passes",
    [
        (QUANTIZED, QuantizeEmbedding(8)),
        (QUANTIZED,),
        (Palettize(default=lut(2, 4)), Quantize(default=None, lm_head=EIGHT), QuantizeEmbedding(8)),
        (Palettize(lm_head=lut(8)), QuantizeEmbedding(8)),
        (QUANTIZED, QuantizeEmbedding(8, min_rows=1)),
        (Quantize(default=None, lm_head=None), QuantizeEmbedding(8, min_rows=1)),
    ],
)
def test_a_tied_table_in_float_is_expected_where_it_was_left_so(passes: tuple[Pass, ...]) -> None:
    program = _rounded(*passes)
    require_rounded(program)
    held, expected = _held_and_expected(program)
    assert abs(held - expected) < TABLE_BYTES / 4, "zero points and the width of scales are all that differs"


@pytest.mark.long
def test_scales_count_as_the_format_holds_them() -> None:
    """Float32 here, as in ONNX, and float16 in the recipe; zero points are small and stay unexpected."""
    program = _rounded(QUANTIZED, QuantizeEmbedding(8))
    facts = static_weight_facts({"forward": program}, half=False)
    zero_points = sum(fact.bytes for fact in facts if fact.name.endswith("_zero_point"))
    assert sum(fact.bytes for fact in facts) - zero_points == expected_bytes(facts, program)


def _read_in_float(program: Program, name: str) -> Program:
    """The program with a float copy of a rounded weight in its linear layer."""
    graph = deepcopy(program.graph)
    graph.meta = dict(program.graph.meta)
    changed = replace(program, graph=graph)
    linear = nodes_of(changed.graph, torch.ops.aten.linear.default)[0]
    value = torch.zeros(linear.meta["val"].shape[-1], linear.args[0].meta["val"].shape[-1])  # type: ignore[union-attr]
    set_buffer(changed.graph, name, value)
    with changed.graph.graph.inserting_before(linear):
        linear.update_arg(1, changed.graph.graph.get_attr(name))
    return changed


@pytest.mark.long
@pytest.mark.parametrize(
    "rounding", [QUANTIZED, Palettize(default=lut(4, 8), lm_head=lut(8))], ids=["integers", "tables"]
)
def test_a_float_copy_of_a_rounded_matrix_is_refused_before_it_is_lowered(rounding: Pass) -> None:
    name = "decoder.model.layers.0.self_attn.q_proj.weight"
    program = _read_in_float(_rounded(rounding, QuantizeEmbedding(8)), name)
    with pytest.raises(BudgetError, match=r"layers\.0\.self_attn\.q_proj\.weight stayed in float") as caught:
        require_rounded(program)
    assert caught.value.code == "E210"
    held, expected = _held_and_expected(program)
    assert held - expected >= 4 * program.graph.get_buffer(name).numel()


class _LookedUp(torch.nn.Module):
    """Tables that are read as indices alone, one of them beyond 16 bits, and one that is read as numbers too."""

    rows: torch.Tensor
    far: torch.Tensor
    numbers: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.tensor([[3, 0], [1, 2]]))
        self.register_buffer("far", torch.tensor([70_000, 3]))
        self.register_buffer("numbers", torch.tensor([1, 2, 3]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        looked_up = torch.nn.functional.embedding(self.rows, x).sum() + x[:, 0].index_select(0, self.far).sum()
        return looked_up + torch.nn.functional.embedding(self.numbers, x).sum() + self.numbers.sum()


@pytest.mark.parametrize(
    ("half", "index_bits", "bits"), [(True, 16, [16, 32, 32]), (True, 0, [32, 32, 32]), (False, 0, [64, 64, 64])]
)
def test_indices_count_as_the_format_stores_them(half: bool, index_bits: int, bits: list[int]) -> None:
    program = capture_module(_LookedUp().eval(), (torch.zeros(70_001, 2),))
    facts = {fact.name: fact for fact in static_weight_facts({"main": program}, half, index_bits)}
    assert [facts[name].container_bits for name in ("rows", "far", "numbers")] == bits
    assert facts["rows"].bytes == 4 * bits[0] // 8
