"""An artifact whose matrices lay in files until it was written is the same, byte for byte."""

from __future__ import annotations

import platform
from io import BytesIO
from pathlib import Path

import pytest

from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.lower import Lowered, lower_methods
from edgec.ir.program import Program
from tests.backends.cpu.linear.programs import MIXED, quantised
from tests.backends.cpu.linear.test_experts import quantised as experts_quantised

HOST = BlockRows.of(platform.machine())


def _bytes(lowered: Lowered) -> bytes:
    stream = BytesIO()
    lowered.write(stream)
    return stream.getvalue()


@pytest.mark.long
def test_an_artifact_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _same_bytes({"forward": quantised("llama", MIXED)}, HOST, tmp_path, monkeypatch)


@pytest.mark.slow
def test_of_standard_kernels_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _same_bytes({"forward": quantised("llama", (("*", None),), None)}, None, tmp_path, monkeypatch)


@pytest.mark.slow
def test_experts_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _same_bytes({"forward": experts_quantised("olmoe")}, HOST, tmp_path, monkeypatch)


def _same_bytes(
    programs: dict[str, Program], rows: BlockRows | None, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgec.backends.cpu.regions.shelf._LEAST", 512)
    in_memory = lower_methods(programs, block_rows=rows)
    filed = lower_methods(programs, block_rows=rows, shelf=shelf)
    assert _bytes(filed) == _bytes(in_memory) and filed.stored == in_memory.stored
    large = {one.key for one in in_memory.stored if one.bytes >= 512}
    assert len(list(shelf.iterdir())) == len(large) > 0, "equal matrices are one file"


@pytest.mark.long
def test_small_data_stays_in_memory(tmp_path: Path) -> None:
    lower_methods({"forward": quantised("llama", MIXED)}, block_rows=HOST, shelf=tmp_path)
    assert not list(tmp_path.iterdir())
