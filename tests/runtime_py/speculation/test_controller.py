from __future__ import annotations

from itertools import pairwise

import pytest

from edgec.runtime_py.speculation.controller import Controller, DraftPlan, Offer

OFFER = Offer("guesser", 0, 7)


def taught(costs: dict[int, float], accepted: int, drafted: int, times: int = 40) -> Controller:
    """A controller that has measured these costs and seen such drafts."""
    controller = Controller(7)
    for _ in range(5):
        controller.plain(costs[1])
        for size, ms in costs.items():
            controller.costs.observe(size, ms)
    for _ in range(times):
        controller.judged(OFFER, drafted, accepted)
    return controller


def test_nothing_is_drafted_before_a_plain_call_was_measured() -> None:
    assert Controller(7).plan([OFFER]).length == 0


def test_certain_drafts_are_as_long_as_they_may_be_where_calls_are_cheap() -> None:
    assert taught({1: 10, 8: 15}, 7, 7).plan([OFFER]) == DraftPlan(0, 7)
    short = Offer("guesser", 0, 3)
    assert taught({1: 10, 8: 15}, 7, 7).plan([short]) == DraftPlan(0, 3)


def test_nothing_is_drafted_where_every_token_costs_as_much_as_a_call() -> None:
    assert taught({size: 10.0 * size for size in range(1, 9)}, 7, 7).plan([OFFER]).length == 0


def test_nothing_is_drafted_where_drafts_are_wrong() -> None:
    assert taught({1: 10, 2: 12, 8: 20}, 0, 7).plan([OFFER]).length == 0


def test_the_length_stops_where_drafts_usually_end() -> None:
    assert taught({size: 10.0 + 0.5 * (size - 1) for size in range(1, 9)}, 2, 7).plan([OFFER]).length == 2


def test_a_cliff_in_the_costs_is_not_crossed() -> None:
    costs = {1: 10.0, 2: 11, 3: 11, 4: 11, 5: 40, 6: 40, 7: 40, 8: 40}
    assert taught(costs, 7, 7).plan([OFFER]).length == 3


def test_the_better_of_two_offers_wins() -> None:
    controller = taught({1: 10, 8: 12}, 7, 7)
    for _ in range(40):
        controller.judged(Offer("other", 0, 7), 7, 1)
    assert controller.plan([Offer("other", 0, 7), OFFER]).offer == 1
    assert controller.plan([OFFER, Offer("other", 0, 7)]).offer == 0


def test_classes_of_confidence_are_learned_apart() -> None:
    controller = taught({1: 10, 8: 12}, 7, 7)
    sure, unsure = OFFER, Offer("guesser", 1, 7)
    for _ in range(40):
        controller.judged(unsure, 7, 0)
    assert controller.plan([sure]).length == 7 and controller.plan([unsure]).length == 0


def test_the_cost_of_making_a_draft_counts() -> None:
    controller = taught({1: 10, 8: 12}, 7, 7)
    assert controller.plan([Offer("guesser", 0, 7, draft_ms=2.0)]).length == 7
    assert controller.plan([Offer("guesser", 0, 7, draft_ms=20.0)]).length == 0


def test_losses_stop_the_drafts_and_time_allows_them_again() -> None:
    controller = taught({1: 10, 8: 12}, 7, 7)
    controller.verified(OFFER, 7, 0, 60.0, 0.0)
    controller.verified(OFFER, 7, 0, 60.0, 0.0)
    assert not controller.may_draft
    for _ in range(1000):
        controller.plain(10.0)
    for _ in range(40):
        controller.judged(OFFER, 7, 7)
        controller.costs.observe(8, 12.0)
    assert controller.may_draft
    assert controller.plan([OFFER]).length == 7


@pytest.mark.parametrize(("planning_ms", "most"), [(0.01, 1.0), (0.5, 0.55), (5.0, 0.06)])
def test_planning_in_vain_takes_at_most_its_share_of_the_time(planning_ms: float, most: float) -> None:
    controller, planned = Controller(7), 0
    for _ in range(1000):
        if controller.may_draft:
            planned += 1
            controller.planned_in_vain(planning_ms)
        controller.plain(10.0)
    assert planned * planning_ms <= 0.03 * 1000 * 10.0 + 2 * 10.0
    assert 0 < planned <= most * 1000


def test_a_declined_offer_gets_other_chances_at_growing_intervals() -> None:
    controller = taught({size: 10.0 * (1 + 1.1 * (size - 1)) for size in range(1, 9)}, 2, 7)
    tried = [step for step in range(300) if controller.plan([OFFER]).length]
    assert 2 <= len(tried) <= 6
    gaps = [b - a for a, b in pairwise(tried)]
    assert gaps == sorted(gaps) and gaps[0] >= 16


def test_a_plain_call_now_and_then_keeps_its_cost_known() -> None:
    controller = taught({1: 10, 8: 12}, 7, 7)
    plain = 0
    for _ in range(1000):
        if controller.plan([OFFER]).length:
            controller.verified(OFFER, 7, 7, 12.0, 0.0)
        else:
            plain += 1
            controller.plain(10.0)
    assert plain == pytest.approx(1000 / 101, abs=1)
