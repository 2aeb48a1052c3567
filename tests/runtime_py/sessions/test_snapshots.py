"""Snapshots of what a session cannot take back, over a fake model that predicts from what it reads back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.runtime_py.sessions.snapshots import Snapshots
from tests.runtime_py.fake_arena import FULL, WITH_RING, ArenaStepper

PROMPT, ANSWER = list(range(1, 21)), list(range(30, 50))


def fed(stepper: ArenaStepper, tokens: Sequence[int], start: int = 0) -> int:
    return int(stepper.prefill(tokens[start:], start).argmax())


def anew(tokens: Sequence[int]) -> int:
    return fed(ArenaStepper(WITH_RING), tokens)


def test_a_turn_that_leaves_out_the_answer_goes_on_from_the_prompt() -> None:
    stepper = ArenaStepper(WITH_RING)
    snapshots, turn = Snapshots(stepper, WITH_RING), [*PROMPT, 3, 4, 5]
    fed(stepper, PROMPT)
    snapshots.keep()
    fed(stepper, [*PROMPT, *ANSWER], len(PROMPT))
    assert stepper.reusable(turn) == 0, "the ring has forgotten"
    assert snapshots.recall(turn) == len(PROMPT) == stepper.reusable(turn)
    assert fed(stepper, turn, len(PROMPT)) == anew(turn)


def test_what_the_session_holds_is_preferred_to_less() -> None:
    stepper = ArenaStepper(WITH_RING)
    snapshots = Snapshots(stepper, WITH_RING)
    fed(stepper, PROMPT)
    snapshots.keep()
    fed(stepper, [*PROMPT, *ANSWER], len(PROMPT))
    assert snapshots.recall([*PROMPT, *ANSWER, 5]) == 40 == len(stepper.cache.tokens)


def test_a_snapshot_of_another_text_is_not_used() -> None:
    stepper = ArenaStepper(WITH_RING)
    snapshots = Snapshots(stepper, WITH_RING)
    fed(stepper, PROMPT)
    snapshots.keep()
    fed(stepper, ANSWER)
    assert snapshots.recall([*PROMPT, 3]) == 0, "the full cache holds other tokens now"


def test_full_caches_and_states_out_of_reach_need_no_snapshot() -> None:
    for stepper, states in ((ArenaStepper(FULL), FULL), (ArenaStepper(WITH_RING, reachable=False), WITH_RING)):
        snapshots = Snapshots(stepper, states)
        fed(stepper, PROMPT)
        snapshots.keep()
        assert snapshots.bytes == 0 and snapshots.recall([*PROMPT[:10], 3]) == (10 if states is FULL else 0)


def test_only_the_latest_are_kept() -> None:
    stepper = ArenaStepper(WITH_RING)
    snapshots = Snapshots(stepper, WITH_RING, most=2)
    for length in (5, 10, 15, 20):
        fed(stepper, PROMPT[:length], max(0, length - 5))
        snapshots.keep()
    fed(stepper, [*PROMPT, *ANSWER], 20)
    assert snapshots.bytes == 2 * 8 * 14
    assert snapshots.recall([*PROMPT[:12], 9]) == 12, "the third one, taken back by the ring's slack"
    assert snapshots.recall([*PROMPT[:7], 9]) == 0, "the second one is gone"


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 30), st.lists(st.integers(1, 4), min_size=1, max_size=12)), max_size=8))
def test_a_text_is_the_same_whatever_was_reused(turns: list[tuple[int, list[int]]]) -> None:
    """Each turn keeps a part of the one before and goes on otherwise."""
    stepper = ArenaStepper(WITH_RING)
    snapshots, text = Snapshots(stepper, WITH_RING), [1, 2, 3]
    for kept, new in turns:
        text = [*text[:kept], *new][:40]
        held = snapshots.recall(text)
        assert held < len(text)
        assert fed(stepper, text, held) == anew(text)
        snapshots.keep()
        answer = [*text, *ANSWER][:60]
        fed(stepper, answer, len(text))
        text = answer
