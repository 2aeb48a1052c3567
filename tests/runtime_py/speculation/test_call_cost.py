from __future__ import annotations

import pytest

from edgec.runtime_py.speculation.call_cost import CallCost


def test_sizes_between_two_measured_ones_lie_on_a_line() -> None:
    cost = CallCost(5)
    cost.observe(1, 10.0)
    cost.observe(5, 30.0)
    assert cost.table == pytest.approx([0, 10, 15, 20, 25, 30])


def test_beyond_what_was_measured_optimism_reigns() -> None:
    cost = CallCost(4)
    cost.observe(1, 10.0)
    cost.observe(2, 12.0)
    assert cost.table == pytest.approx([0, 10, 12, 12.3, 12.6])


def test_trials_double_the_largest_size_known() -> None:
    cost = CallCost(7)
    assert cost.trusted == 0
    for size, trusted in ((1, 2), (2, 4), (4, 7), (1, 7)):
        cost.observe(size, 10.0)
        assert cost.trusted == trusted


def test_one_interruption_does_not_count() -> None:
    cost = CallCost(1)
    for ms in (10.0, 11.0, 900.0, 10.0, 11.0):
        cost.observe(1, ms)
    assert cost.table[1] == 11.0


def test_what_changed_is_learned_anew() -> None:
    cost = CallCost(1)
    for ms in [10.0] * 20 + [25.0] * 3:
        cost.observe(1, ms)
    assert cost.table[1] == 25.0
