"""The benchmark of adapters on a tiny bundle: which switches are first ones, and what a row says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import adapters
from edgec.runtime_py.adapters import use
from edgec.runtime_py.engines.engine_adapter import EngineAdapter
from edgec.runtime_py.sessions.session import Session

pytestmark = pytest.mark.slow


def test_each_first_switch_copies_into_the_engine_and_no_other_does(
    four_bits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[str] = []
    made = EngineAdapter

    def counted(*given: Any) -> Any:
        copies.append("copy")
        return made(*given)

    monkeypatch.setattr(use, "EngineAdapter", counted)
    row = adapters.measure(Session(four_bits), rank=4, repeats=2)
    assert row.first_switch_ms.count == row.first_switch_from_disk_ms.count == 4
    # Four of each kind, and one for each of the two adapters that are then kept.
    assert len(copies) == 10
    assert (row.rank, row.switch_ms.count, row.token_ms.count) == (4, 2 * adapters.SWITCHES, 10)
    assert row.first_token_ms.count == row.switched_first_token_ms.count == 2
    assert f"first_switch_ms {row.first_switch_ms.median:,.3f} (" in adapters.line(row)


def test_a_row_is_json(four_bits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(sys, "argv", ["adapters", str(four_bits), "--rank", "4", "--json"])
    adapters.main(told.append)
    assert '"obtained": "measured"' in told[0] and '"first_switch_from_disk_ms": {"median": ' in told[0]
