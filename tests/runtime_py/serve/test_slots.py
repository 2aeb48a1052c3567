"""Which session a request gets, and what is copied there: a decoder that predicts from its memory would notice."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from edgec.bundle.entry_points import StateInfo
from edgec.runtime_py.serve.slots import Slot, Slots
from tests.runtime_py.fake_arena import FULL, WITH_RING, ArenaStepper

CHUNK = 4
PROMPT = list(range(1, 11))


def slots(most: int, states: Sequence[StateInfo] = FULL) -> Slots:
    model = SimpleNamespace(
        bundle=SimpleNamespace(manifest=SimpleNamespace(states=states)),
        prefix=None,
        new_session=lambda: SimpleNamespace(session=ArenaStepper(states)),
    )
    return Slots(cast(Any, model), most, CHUNK)


def serve(made: Slots, prompt: list[int], answer: tuple[int, ...] = (), end: bool = True) -> tuple[Slot, int]:
    """Take a session, feed a prompt and an answer, and give it back; logits must be those of a session of its own."""
    slot, count = made.take(prompt)
    own = ArenaStepper(cast(Any, slot.session)._states).prefill(prompt, 0)
    np.testing.assert_array_equal(slot.session.prefill(prompt[count:], count), own)
    for place, token in enumerate(answer, len(prompt)):
        slot.session.prefill([token], place)
    if end:
        made.give_back(slot)
    return slot, count


def test_what_goes_on_from_an_answer_goes_on_in_its_session() -> None:
    made = slots(2)
    first, _ = serve(made, PROMPT, (50, 51))
    other, _ = serve(made, [90, 91])
    again, count = serve(made, [*PROMPT, 50, 51, 60])
    assert again is first is not other and count == 12


@pytest.mark.parametrize("end", [False, True])
def test_whole_chunks_of_any_sessions_prompt_are_copied(end: bool) -> None:
    made = slots(2)
    first, _ = serve(made, PROMPT, (50,), end=end)
    second, count = serve(made, [*PROMPT[:7], 70, 71])
    assert second is not first and count == 4
    # The one it was copied from goes on as if nothing had been.
    own = ArenaStepper()
    own.prefill([*PROMPT, 50], 0)
    np.testing.assert_array_equal(first.session.prefill([60], 11), own.prefill([60], 11))


def test_an_answers_tokens_are_not_copied() -> None:
    made = slots(2)
    serve(made, PROMPT, (50, 51, 52, 53, 54, 55, 56, 57), end=False)
    # Ten tokens of a prompt are two chunks; the tokens after them were not computed as parts of one.
    assert serve(made, [*PROMPT, 50, 51, 52, 53, 54, 60])[1] == 8


def test_equal_prompts_use_the_same_chunks_whoever_came_first() -> None:
    made = slots(3)
    assert [serve(made, [*PROMPT, last])[1] for last in (20, 21, 20)] == [0, 8, 8]


def test_the_session_used_longest_ago_makes_room() -> None:
    made = slots(2)
    first, second = (serve(made, [base] * 6)[0] for base in (10, 20))
    assert serve(made, [30] * 6)[0] is first and serve(made, [40] * 6)[0] is second


def test_an_aborted_prompt_counts_as_far_as_it_was_read() -> None:
    made = slots(2)
    slot, _ = made.take(PROMPT)
    slot.session.prefill(PROMPT[:8], 0)
    made.give_back(slot)
    assert (slot.prompt, slot.exact) == (8, 8)
    assert serve(made, [*PROMPT[:6], 70])[1] == 4


def test_a_ring_that_has_come_round_is_not_copied() -> None:
    for length, copied in ((10, 8), (20, 0)):
        made = slots(2, WITH_RING)
        serve(made, list(range(1, length + 1)), end=False)
        assert serve(made, [*range(1, 10), 70])[1] == copied


def test_a_ring_goes_on_from_the_end_of_its_prompt() -> None:
    made = slots(1, WITH_RING)
    slot, _ = made.take(long := list(range(1, 21)))
    slot.session.prefill(long, 0)
    slot.snapshots.keep()
    for place in range(20, 40):
        slot.session.prefill([60], place)
    made.give_back(slot)
    # The template leaves out what was thought.
    assert serve(made, [*long, 80, 81])[1] == 20
