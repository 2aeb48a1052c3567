"""Every packed matrix of an artifact is read back; a fault in one of them is named, however little it moves logits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.lower import Lowered, lower_methods
from edgec.bundle.delegates import PackedText
from edgec.bundle.pte_layout import read_packed
from edgec.errors import BudgetError
from edgec.exporter.parity.stored_weights import check_stored_weights, rows_of_graph
from edgec.ir.kernel_grids import DYNAMIC_INT8_KERNELS
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme
from tests.backends.cpu.linear.programs import EIGHT, MIXED, quantised
from tests.backends.cpu.linear.test_experts import quantised as experts_quantised
from tests.exporter.parity.planted_faults import LOST, ONE_ROW, ROWS_OFF, SWAPPED, damaged

MATRIX = "layers.0.self_attn.v_proj"
SIX = WeightScheme(4, 32, symmetric=False, scale_bits=6)


@pytest.fixture(scope="module", params=BlockRows, ids=str)
def lowered(request: pytest.FixtureRequest) -> tuple[Program, Lowered]:
    program = quantised("llama", MIXED, default=SIX)
    return program, lower_methods({"forward": program}, block_rows=request.param)


def written(lowered: Lowered, folder: Path) -> Path:
    with (folder / "model.pte").open("wb") as stream:
        lowered.write(stream)
    return folder / "model.pte"


@pytest.mark.slow
def test_every_matrix_and_the_token_table_are_read_back(lowered: tuple[Program, Lowered], tmp_path: Path) -> None:
    program, made = lowered
    count = check_stored_weights(written(made, tmp_path), {"forward": program}, made.stored_by_method)
    assert program.spec is not None and count == 7 * len(program.spec.layers) + 2, "of layers, lm_head and token table"


@pytest.mark.slow
@pytest.mark.parametrize("fault", [SWAPPED, ONE_ROW, ROWS_OFF, LOST])
def test_a_fault_of_one_matrix_is_named(fault: str, lowered: tuple[Program, Lowered], tmp_path: Path) -> None:
    program, made = lowered
    graphs: Mapping[str, Program] = {"forward": damaged(program, fault, MATRIX)}
    with pytest.raises(BudgetError) as caught:
        check_stored_weights(written(made, tmp_path), graphs, made.stored_by_method)
    assert caught.value.code == "E840" and MATRIX in caught.value.where


def test_one_flipped_bit_of_the_file_is_seen(lowered: tuple[Program, Lowered], tmp_path: Path) -> None:
    program, made = lowered
    (place,) = (one for one in made.stored_by_method["forward"] if MATRIX in one.name and one.matrix)
    artifact = written(made, tmp_path)
    data = bytearray(artifact.read_bytes())
    segment = _segment_of(artifact, place.key)
    data[data.index(segment) + len(segment) // 3] ^= 1
    artifact.write_bytes(data)
    with pytest.raises(BudgetError) as caught:
        check_stored_weights(artifact, {"forward": program}, made.stored_by_method)
    assert MATRIX in caught.value.where


def _segment_of(artifact: Path, key: str) -> bytes:
    return next(data for text, data in read_packed(artifact) if text.key == key)


@pytest.fixture(scope="module")
def standard() -> tuple[Program, Lowered]:
    program = quantised("llama", (("*v_proj*", EIGHT),), kernels=DYNAMIC_INT8_KERNELS)
    return program, lower_methods({"forward": program})


@pytest.mark.long
def test_what_xnnpack_stores_is_read_back(standard: tuple[Program, Lowered], tmp_path: Path) -> None:
    program, made = standard
    count = check_stored_weights(written(made, tmp_path), {"forward": program}, made.stored_by_method)
    assert program.spec is not None and count >= 7 * len(program.spec.layers) + 1, "of layers and lm_head"


@pytest.mark.long
@pytest.mark.parametrize("matrix", [MATRIX, "layers.0.self_attn.q_proj"], ids=["8 bits", "4 bits"])
@pytest.mark.parametrize("fault", [SWAPPED, ONE_ROW, ROWS_OFF, LOST])
def test_a_fault_in_what_xnnpack_stores_is_named(
    fault: str, matrix: str, standard: tuple[Program, Lowered], tmp_path: Path
) -> None:
    program, made = standard
    graphs: Mapping[str, Program] = {"forward": damaged(program, fault, matrix)}
    with pytest.raises(BudgetError) as caught:
        check_stored_weights(written(made, tmp_path), graphs, made.stored_by_method)
    assert caught.value.code == "E840" and matrix in caught.value.where


@pytest.mark.slow
def test_experts_are_read_back(tmp_path: Path) -> None:
    program = experts_quantised("olmoe", SIX)
    made = lower_methods({"forward": program}, block_rows=BlockRows.X86)
    names = {one.name for one in made.stored_by_method["forward"] if "experts" in one.name}
    assert len(names) == 4
    count = check_stored_weights(written(made, tmp_path), {"forward": program}, made.stored_by_method)
    assert count > len(names)


def test_rows_that_fill_an_experts_blocks_are_no_rows_of_the_graph() -> None:
    text = PackedText("key", 8, 24, 32, 32, 4, 1, 8, "bfloat16", expert_rows=5)
    own, rows = rows_of_graph(text, torch.arange(4, 18))
    assert own.nonzero().flatten().tolist() == [0, 4, 5, 6, 7, 8, 12, 13] and rows.tolist() == [
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
    ]
