"""Every byte of a real artifact is accounted for, and bytes that nothing explains stop the build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgec.bundle.delegates import read_xnnpack_blob
from edgec.bundle.manifest import Ledger, LedgerRow
from edgec.bundle.pte_layout import CONSTANTS, DELEGATE, NAMED, ArtifactLayout, StoredBytes, read_layout
from edgec.errors import BudgetError, InputError
from edgec.exporter.assemble.ledger import WeightRecord, build_ledger, check_ledger, ledger_of, unexplained_bytes

RECORDS = [
    WeightRecord("emb.weight", "float32", (128, 64), 32, 32, 128 * 64 * 4),
    WeightRecord("norm", "float32", (64,), 32, 32, 64 * 4),
    WeightRecord("up.weight", "int4", (96, 64), 4.5, 4.5, 96 * 64 // 2 + 96 * 2 * 2),
    WeightRecord("up.bias", "float32", (96,), 32, 32, 96 * 4),
    WeightRecord("down.weight", "float32", (64, 96), 32, 32, 64 * 96 * 4),
]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tied embedding, one linear layer in 4-bit groups of 32, one in float, and a state: lowered to XNNPACK."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from torch import nn
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    class Tiny(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb, self.norm = nn.Embedding(128, 64), nn.Parameter(torch.rand(64))
            self.up, self.down = nn.Linear(64, 96), nn.Linear(96, 64, bias=False)
            self.register_buffer("state", torch.zeros(1, 8, 64))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            hidden = self.down(torch.relu(self.up(self.emb(tokens) * self.norm)))
            torch.Tensor.copy_(self.get_buffer("state"), hidden)
            return nn.functional.linear(hidden + self.get_buffer("state"), self.emb.weight)

    torch.manual_seed(0)
    model = Tiny().eval()
    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))  # type: ignore[attr-defined]
    quantize_(model, config, filter_fn=lambda module, name: name == "up")
    captured = torch.export.export(model, (torch.zeros(1, 8, dtype=torch.long),), strict=True)
    lowered = to_edge_transform_and_lower(captured, partitioner=[XnnpackPartitioner()]).to_executorch()
    path = tmp_path_factory.mktemp("ledger") / "model.pte"
    path.write_bytes(lowered.buffer)
    return path


def _rows(ledger: Ledger) -> dict[str, LedgerRow]:
    return {row.name: row for row in ledger.rows}


@pytest.mark.long
def test_every_byte_belongs_to_something(artifact: Path) -> None:
    layout = read_layout(artifact)
    stored = sum(run.bytes for run in layout.stored)
    assert layout.artifact_bytes == artifact.stat().st_size
    assert layout.artifact_bytes == layout.program_bytes + layout.graph_bytes + layout.padding_bytes + stored
    assert 0 <= layout.padding_bytes < 256 * (len(layout.stored) + 4), "padding is bounded by the alignment"


@pytest.mark.long
def test_the_delegates_say_what_their_constants_are(artifact: Path) -> None:
    runs = {run.shape: run for run in read_layout(artifact).stored if run.place == NAMED and run.dtype}
    assert runs[(96, 64)].dtype == "qbint4" and runs[(96, 64)].bytes == 96 * 64 // 2
    assert len(runs[(96, 64)].scale_keys) == 1
    assert runs[(64, 96)].dtype == "float32"


def test_the_rows_are_the_tensors_with_their_copies(artifact: Path) -> None:
    ledger = build_ledger(artifact, RECORDS)
    rows = _rows(ledger)
    assert set(rows) == {record.name for record in RECORDS}, "nothing is left unexplained"
    assert {name: row.copies for name, row in rows.items()} == {record.name: 1 for record in RECORDS} | {
        "emb.weight": 2
    }
    assert rows["emb.weight"].bytes == 2 * 32768
    assert "cannot share" in rows["emb.weight"].reason
    assert rows["up.weight"].bytes == 3072 + 384 and rows["up.weight"].values == 96 * 64
    assert ledger.rows[0].name == "emb.weight", "largest first"
    assert sum(row.bytes for row in ledger.rows) + ledger.program_bytes == ledger.artifact_bytes


def test_structure_and_reasoned_copies_pass_and_are_stated(artifact: Path) -> None:
    ledger = build_ledger(artifact, RECORDS)
    expected = sum(record.bytes for record in RECORDS)
    assert unexplained_bytes(ledger, expected) == 0
    check_ledger(ledger, expected)
    assert any("emb.weight" in reason for reason in ledger.overhead_reasons)
    assert any(reason.startswith(f"structure: {ledger.program_bytes:,} bytes") for reason in ledger.overhead_reasons)


def test_a_weight_that_stayed_in_float_stops_the_build(artifact: Path) -> None:
    wanted = [
        replace(r, dtype="int4", container_bits=4.5, bytes=3456) if r.name == "down.weight" else r for r in RECORDS
    ]
    ledger = build_ledger(artifact, wanted)
    assert _rows(ledger)["down.weight"].copies == 0
    with pytest.raises(BudgetError) as caught:
        check_ledger(ledger, sum(record.bytes for record in wanted))
    assert caught.value.code == "E210" and caught.value.exit_code == 2
    assert "named data" in caught.value.where and "[64, 96]" in caught.value.where


def test_a_weight_nobody_asked_for_stops_the_build(artifact: Path) -> None:
    with pytest.raises(BudgetError, match=f"{128 * 64 * 4 * 2:,} bytes"):
        check_ledger(build_ledger(artifact, RECORDS[1:]), sum(record.bytes for record in RECORDS[1:]))


def _layout(*runs: StoredBytes, program: int = 100) -> ArtifactLayout:
    return ArtifactLayout(program + sum(run.bytes for run in runs), program, 0, 0, runs)


def _record(name: str, size: int, reason: str = "") -> WeightRecord:
    return WeightRecord(name, "int8", (size,), 8, 8, size, reason)


def test_a_second_copy_in_the_same_place_needs_a_reason() -> None:
    twice = _layout(StoredBytes("a", NAMED, 1000, "x"), StoredBytes("b", NAMED, 1000, "x"))
    with pytest.raises(BudgetError, match="1,000 bytes"):
        check_ledger(ledger_of(twice, [_record("w", 1000)]), 1000)
    explained = ledger_of(twice, [_record("w", 1000, reason="packed for two kernels")])
    check_ledger(explained, 1000)
    assert "w: 1,000 bytes, packed for two kernels" in explained.overhead_reasons


def test_a_fill_of_the_converter_is_no_weight_and_stated() -> None:
    weight, other = (
        StoredBytes("w", NAMED, 1000, "x"),
        StoredBytes("aten_new_empty", NAMED, 4000, "z", "fp16", (1, 2000)),
    )
    ledger = ledger_of(_layout(weight, replace(other, fill=True)), [_record("w", 1000)])
    check_ledger(ledger, 1000)
    assert any("4,000 bytes, one value repeated" in reason for reason in ledger.overhead_reasons)
    with pytest.raises(BudgetError, match="4,000 bytes") as caught:
        check_ledger(ledger_of(_layout(weight, other), [_record("w", 1000)]), 1000)
    assert "aten_new_empty" in caught.value.where


def test_a_delegate_that_names_a_table_holds_no_weights_of_its_own(tiny_bundle: Path) -> None:
    layout = read_layout(tiny_bundle / "model.pte")
    assert not [run for run in layout.stored if run.place == DELEGATE]


def test_scales_belong_to_their_weight_or_to_a_record_of_their_own() -> None:
    weight = StoredBytes("w", NAMED, 500, "x", "qbint4", (10, 100), ("s",))
    layout = _layout(weight, StoredBytes("s", NAMED, 40, "y"))
    together = ledger_of(layout, [_record("w", 540)])
    assert [(row.name, row.copies, row.bytes) for row in together.rows] == [("w", 1, 540)]
    apart = ledger_of(layout, [_record("w", 500), _record("w.scale", 40)])
    assert [(row.name, row.copies, row.bytes) for row in apart.rows] == [("w", 1, 500), ("w.scale", 1, 40)]
    forgotten = ledger_of(layout, [_record("w", 500)])
    assert [(row.name, row.copies, row.bytes) for row in forgotten.rows] == [("w", 1, 540)]


def test_five_per_cent_is_the_line() -> None:
    weight = StoredBytes("a", CONSTANTS, 10_000, "x")
    records = [_record("w", 10_000)]
    check_ledger(ledger_of(_layout(weight, StoredBytes("b", NAMED, 500, "y")), records), 10_000)
    with pytest.raises(BudgetError, match="501 bytes"):
        check_ledger(ledger_of(_layout(weight, StoredBytes("b", NAMED, 501, "y")), records), 10_000)


def test_equal_tensors_stored_once_are_counted_once() -> None:
    ledger = ledger_of(_layout(StoredBytes("a", NAMED, 64, "ones")), [_record("first", 64), _record("second", 64)])
    assert [(row.name, row.copies, row.bytes) for row in ledger.rows] == [("first", 1, 64), ("second", 0, 0)]
    assert ledger.artifact_bytes == 164


def test_a_large_enough_artifact_states_no_overhead() -> None:
    ledger = ledger_of(_layout(StoredBytes("a", NAMED, 100_000, "x")), [_record("w", 100_000)])
    assert ledger.overhead_reasons == []


@pytest.mark.parametrize("keep", [0, 10, 64, 1000])
def test_a_damaged_artifact_is_a_typed_error(artifact: Path, tmp_path: Path, keep: int) -> None:
    (tmp_path / "cut.pte").write_bytes(artifact.read_bytes()[:keep])
    with pytest.raises(InputError) as caught:
        read_layout(tmp_path / "cut.pte")
    assert caught.value.code == "E139"


@pytest.mark.parametrize("blob", [b"", b"x" * 40, b"\0\0\0\0XH00" + b"\xff" * 40])
def test_a_damaged_delegate_blob_is_a_value_error(blob: bytes) -> None:
    with pytest.raises(ValueError, match="delegate blob"):
        read_xnnpack_blob(blob)
