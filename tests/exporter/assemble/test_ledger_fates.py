"""Rows of a ledger say what their matrices were in the checkpoint, with sums that add up."""

from __future__ import annotations

import pytest

from edgec.bundle.checkpoint_matrices import CheckpointMatrix, Fate, fate_shares, fates_in_words
from edgec.bundle.manifest import Ledger, LedgerRow
from edgec.exporter.assemble.ledger_fates import with_fates


def _matrix(name: str, fate: Fate, size: int, error: float = 0.0) -> CheckpointMatrix:
    return CheckpointMatrix(name=name, found="Q4_1", used="", fate=fate, error=error, bytes=size)


def _row(name: str, size: int) -> LedgerRow:
    return LedgerRow(name=name, dtype="int4", values=1, bits=4, information_bits=4, copies=1, bytes=size)


MATRICES = [
    _matrix("a.weight", "kept", 60),
    _matrix("b.weight", "rounded again", 20, 0.07),
    _matrix("model.embed_tokens.weight", "kept", 20),
]


def test_rows_are_found_by_the_names_of_their_parameters() -> None:
    names = ("a.weight_int", "a.weight_scale", "b.weight", "model.embed_tokens.weight_embedding_int", "norm.weight")
    made = with_fates(
        Ledger(artifact_bytes=99, weight_bytes=90, program_bytes=9, rows=[_row(name, 10) for name in names]), MATRICES
    )
    assert [row.fate for row in made.rows] == ["kept", "kept", "rounded again", "kept", None]
    assert [row.found for row in made.rows] == ["Q4_1"] * 4 + [""]
    assert [(s.fate, s.matrices, s.bytes, s.artifact_bytes) for s in made.fates] == [
        ("kept", 2, 80, 30),
        ("rounded again", 1, 20, 10),
    ]
    assert Ledger.model_validate_json(made.model_dump_json()) == made


def test_shares_are_of_the_checkpoints_bytes() -> None:
    assert [share.share for share in fate_shares(MATRICES)] == pytest.approx([0.8, 0.2])
    assert fate_shares([]) == [] and fates_in_words([]) == ""
    assert fates_in_words(MATRICES) == (
        "2 of 3 matrices kept bit for bit, 80 % of their bytes; 1 rounded again, 20 % of their bytes (error up to 7.0%)"
    )
