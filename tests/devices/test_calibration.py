"""The published speeds: complete, consistent with the chips, and free of what was declared doubtful."""

from __future__ import annotations

import pytest

from edgec.devices.calibration import observations
from edgec.devices.targets import chips, phones
from edgec.devices.workload import fastest_four_hz


def test_rows_are_many_and_unique() -> None:
    rows = [row.row for row in observations()]
    assert len(rows) == len(set(rows)) == 231  # the number docs/plan.md states


def test_each_row_measures_something_and_names_its_source() -> None:
    for row in observations():
        assert row.prefill_tokens_per_s or row.decode_tokens_per_s
        assert row.source


def test_phones_have_the_same_chip_as_in_their_table() -> None:
    for row in observations():
        if row.workload.device in phones():
            assert phones()[row.workload.device]["chip"] == row.workload.chip


def test_bandwidth_agrees_with_the_chip_where_it_has_one() -> None:
    for row in observations():
        stated = chips()[row.workload.chip].get("bandwidth_bytes_per_s")
        assert stated is None or stated == pytest.approx(row.workload.bandwidth_bytes_per_s, rel=1e-3)


def test_no_laptop_cpu_is_in_the_cpu_rows() -> None:
    assert not [row.row for row in observations() if row.workload.unit == "cpu" and row.laptop]


def test_implied_reading_stays_below_the_peak() -> None:
    """Decode cannot read its weights faster than the memory delivers them; a row that does is wrong."""
    for row in observations():
        if row.decode_tokens_per_s:
            read = row.decode_tokens_per_s * row.workload.weight_bytes
            assert read <= row.workload.bandwidth_bytes_per_s, row.row


def test_the_four_fastest_cores_are_counted() -> None:
    assert fastest_four_hz([(2, 4e9), (6, 3e9)]) == 14e9
    assert fastest_four_hz([(1, 3e9), (2, 2e9)]) == 7e9
    assert fastest_four_hz(None) is None
