"""The ledger to the byte: of a decoder whose matrices lie in the layout of edgec's kernels (docs/kernels.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.bundle.folder import open_bundle
from edgec.bundle.manifest import Ledger
from tests.families import Family, save

pytestmark = pytest.mark.long

HIDDEN, HEADS, HEAD, VOCAB, LAYERS = 64, 4, 16, 128, 3
KV = HEAD * 2
BUDGETS = {"kl_mean": 50.0, "top1_agreement": 0.0}


@dataclass(frozen=True)
class Case:
    """A recipe on a processor.

    Attributes:
        recipe: its name.
        bits: of a weight in linear layers.
        rules: bits of the layers that the recipe gives others; groups of 32 with minimums then, else a scale for a row.
        table: bits of the token table, which is the matrix of the lm_head, too.
        target, block: what the layout is for, and the rows of its blocks.
        inner: the width of the gated layers: 88 rows fill neither a block of 16 nor 88 values three slices of 32.
    """

    recipe: str
    bits: int
    rules: tuple[tuple[str, int], ...] = ()
    table: int = 8
    target: str = "host"
    block: int = 16
    inner: int = 96

    def bits_of(self, name: str) -> int:
        """Of a weight of a linear layer."""
        return next((bits for ending, bits in self.rules if name.endswith(ending)), self.bits)

    def bytes(self, bits: int, rows: int, width: int) -> int:
        """Of a matrix: whole slices of codes, then a scale and a minimum of 6 bits for each, and float16 steps of both
        for 8 of them; or a float32 scale of the row."""
        slices = -(-width // 32)
        beside = slices + -(-slices // 2) + 4 * -(-slices // 8) if self.rules else 4
        return -(-rows // self.block) * self.block * (slices * 32 * bits // 8 + beside)


RULES = (("v_proj", 6), ("down_proj", 5), ("o_proj", 4))
CASES = (
    Case("3bit", 3, RULES, 6),
    Case("balanced2", 2),
    Case("balanced2", 2, inner=88),
    Case("3bit", 3, RULES, 6, "android-cpu", 8),
    Case("balanced2", 2, target="android-cpu", block=8, inner=88),
)


def ledger_of(case: Case, folder: Path) -> Ledger:
    family = Family("llama", {"tie_word_embeddings": True, "intermediate_size": case.inner})
    options: dict[str, Any] = {"recipe": case.recipe, "target": case.target, "context": 64, "budgets": BUDGETS}
    bundle = open_bundle(edgec.export(save(family, folder / "llama"), out=folder / "x.edgec", **options))
    ledger = bundle.manifest.ledger
    assert ledger is not None and ledger.artifact_bytes == bundle.artifact_path.stat().st_size
    return ledger


def shapes(case: Case) -> dict[str, tuple[int, int]]:
    """Rows and width of every linear layer of a block."""
    return {
        "self_attn.q_proj": (HIDDEN, HIDDEN),
        "self_attn.k_proj": (KV, HIDDEN),
        "self_attn.v_proj": (KV, HIDDEN),
        "self_attn.o_proj": (HIDDEN, HIDDEN),
        "mlp.gate_proj": (case.inner, HIDDEN),
        "mlp.up_proj": (case.inner, HIDDEN),
        "mlp.down_proj": (HIDDEN, case.inner),
    }


@pytest.mark.sweep(1)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.recipe}-{case.target}-{case.inner}")
def test_every_matrix_takes_what_its_layout_asks_for(case: Case, tmp_path: Path) -> None:
    ledger = ledger_of(case, tmp_path)
    rows = {row.name: row for row in ledger.rows}
    for layer in range(LAYERS):
        for name, shape in shapes(case).items():
            row = rows.pop(f"model.layers.{layer}.{name}.weight_int")
            bits = case.bits_of(name)
            assert (row.values, row.copies, row.bytes) == (shape[0] * shape[1], 1, case.bytes(bits, *shape)), name
            assert row.bits == row.information_bits == bits
    # The embedding is read from the same blocks.
    head = rows.pop("lm_head.weight_int")
    assert (head.copies, head.bits, head.bytes) == (1, case.table, case.bytes(case.table, VOCAB, HIDDEN))
    assert {row.bytes for name, row in rows.items() if name.endswith("norm.weight")} == {HIDDEN * 4}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("case", CASES[:2], ids=lambda case: case.recipe)
def test_no_byte_of_the_file_is_left_over(case: Case, tmp_path: Path) -> None:
    ledger = ledger_of(case, tmp_path)
    assert ledger.artifact_bytes == ledger.program_bytes + sum(row.bytes for row in ledger.rows)
    assert not [row.name for row in ledger.rows if row.name.startswith("(")], "bytes that no tensor explains"
