from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.exporter.bit_search.allocation import (
    WidthChoice,
    allocate,
    convex_hull,
    total_bits,
    total_loss,
    trade_off_path,
)
from edgec.ir.weight_scheme import lut

LAYERS = st.lists(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 1000)), min_size=1, max_size=5), min_size=1, max_size=4
)


def _choices(pairs: list[tuple[int, int]]) -> list[WidthChoice]:
    return [WidthChoice(lut(4), float(bits), loss / 1000) for bits, loss in pairs]


@given(LAYERS)
@settings(max_examples=100, deadline=None)
def test_no_choice_of_hull_points_within_the_bits_of_a_path_point_loses_less(
    layers: list[list[tuple[int, int]]],
) -> None:
    named = {str(i): _choices(pairs) for i, pairs in enumerate(layers)}
    everything = [dict(zip(named, combination, strict=True)) for combination in product(*named.values())]
    for point in trade_off_path(named):
        rivals = [other for other in everything if total_bits(other) <= total_bits(point)]
        assert min(total_loss(other) for other in rivals) >= total_loss(point) - 1e-12


@given(LAYERS, st.floats(0, 160))
@settings(max_examples=100, deadline=None)
def test_budgets_hold(layers: list[list[tuple[int, int]]], budget: float) -> None:
    named = {str(i): _choices(pairs) for i, pairs in enumerate(layers)}
    chosen, least = allocate(named, budget), sum(min(c.bits for c in choices) for choices in named.values())
    assert (chosen is None) == (least > budget)
    if chosen is not None:
        assert set(chosen) == set(named) and total_bits(chosen) <= budget


def test_a_hull_leaves_out_what_saves_too_little() -> None:
    hull = convex_hull(_choices([(2, 100), (3, 90), (4, 10), (6, 10), (8, 0)]))
    assert [choice.bits for choice in hull] == [2, 4, 8]


def test_the_layer_that_matters_gets_the_bits() -> None:
    layers = {"much": _choices([(2, 900), (4, 10)]), "little": _choices([(2, 20), (4, 10)])}
    chosen = allocate(layers, 6)
    assert chosen is not None and (chosen["much"].bits, chosen["little"].bits) == (4, 2)


@pytest.mark.parametrize("budget", [4, 1e9])
def test_ends_of_the_path(budget: float) -> None:
    layers = {"a": _choices([(2, 900), (4, 10)]), "b": _choices([(2, 20), (4, 10)])}
    chosen = allocate(layers, budget)
    assert chosen is not None and total_bits(chosen) == min(budget, 8)
