from __future__ import annotations

import pytest

from edgec.runtime_py.speculation.call_cost import CallCost


def measured(costs: dict[int, float], largest: int) -> CallCost:
    cost = CallCost(largest)
    for size, ms in costs.items():
        for _ in range(5):
            cost.observe(size, ms)
    return cost


def test_sizes_between_two_measured_ones_lie_on_a_line() -> None:
    cost = measured({1: 10.0, 5: 30.0}, 5)
    assert cost.table == pytest.approx([0, 10, 15, 20, 25, 30], rel=0.02)


def test_beyond_what_was_measured_optimism_reigns() -> None:
    cost = measured({1: 10.0, 2: 12.0}, 4)
    assert cost.table == pytest.approx([0, 10, 12, 12.3, 12.6], rel=0.02)


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


def test_the_first_call_of_a_size_is_not_held_against_it() -> None:
    cost = measured({1: 10.0}, 4)
    cost.observe(4, 40.0)
    assert cost.table[4] < 25
    cost.observe(4, 900.0)
    assert cost.table[4] <= 40
    for _ in range(5):
        cost.observe(4, 60.0)
    assert cost.table[4] == pytest.approx(60, rel=0.02)


def test_what_changed_is_learned_anew() -> None:
    cost = CallCost(1)
    for ms in [10.0] * 20 + [25.0] * 3:
        cost.observe(1, ms)
    assert cost.table[1] == 25.0
