"""Which calls are computed together, and how many sessions there may be."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from edgec.bundle.entry_points import Limits
from edgec.errors import InputError
from edgec.runtime_py.serve import scheduler as module
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
from edgec.runtime_py.serve.scheduler import Asked, BatchedStepper, Closed, Scheduler, compute_together, next_calls
from edgec.runtime_py.serve.slot_schedulers import sessions_within
from edgec.runtime_py.sessions.cache_contents import CacheContents
from edgec.runtime_py.sessions.step import SessionCall

LIMITS = Limits(context=512, prefill_chunk=128, logit_rows=4)
CHUNK = 64
POISON = 999


class FakeSession:
    """A session that takes any call; its logits are the tokens."""

    limits = LIMITS

    def __init__(self, adapter: str = "") -> None:
        self.cache = CacheContents(adapter=adapter)

    def check(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> None:
        if start < 0:
            raise InputError("No such position.", code="E153")


def asked(order: int, tokens: int, rows: int = 1, adapter: str = "") -> Asked:
    call = SessionCall(cast(Any, FakeSession(adapter)), range(tokens), 0, range(rows))
    return Asked(order, call, lambda: None)


def chosen(*waiting: Asked) -> list[tuple[int, int]]:
    return [(one.order, len(one.call.tokens)) for one in next_calls(waiting, LIMITS, CHUNK)]


def test_a_part_of_one_prompt_is_read_beside_single_tokens() -> None:
    assert chosen(asked(3, 64, 0), asked(1, 1), asked(4, 64, 0), asked(2, 1)) == [(3, 64), (1, 1), (2, 1)]


def test_the_earliest_answers_prompt_comes_first_and_short_ones_share_a_chunk() -> None:
    assert chosen(asked(5, 20), asked(2, 30), asked(7, 20)) == [(2, 30), (5, 20)]
    assert chosen(asked(5, 64, 0), asked(2, 10)) == [(2, 10)]


def test_rows_are_limited_and_those_that_waited_longest_come_first() -> None:
    assert chosen(*(asked(order, 1) for order in (9, 1, 8, 2, 7))) == [(9, 1), (1, 1), (8, 1), (2, 1)]
    # The last part of a prompt has its row also where there are more answers than rows.
    assert chosen(*(asked(order, 1) for order in (1, 2, 3, 4)), asked(9, 20)) == [(9, 20), (1, 1), (2, 1), (3, 1)]


def test_calls_under_other_adapters_wait_for_a_call_of_their_own() -> None:
    waiting = [
        *(asked(4, 1, adapter="b"), asked(1, 64, adapter="a")),
        *(asked(2, 1, adapter="a"), asked(3, 1, adapter="b")),
    ]
    assert chosen(*waiting) == [(4, 1), (3, 1)]
    assert chosen(*waiting[1:3]) == [(1, 64), (2, 1)]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[int, ...]]]:
    """The tokens of each call of the model, call by call."""
    made: list[list[tuple[int, ...]]] = []

    def step(calls: Sequence[SessionCall]) -> list[Any]:
        made.append([tuple(call.tokens) for call in calls])
        if any(POISON in call.tokens for call in calls):
            raise InputError("The artifact could not be executed.", code="E157")
        return [np.array([[float(call.tokens[row])] for row in call.rows]) for call in calls]

    monkeypatch.setattr(module, "step", step)
    return made


@pytest.fixture
def scheduler(steps: object) -> Iterator[Scheduler]:
    made = Scheduler(LIMITS, CHUNK)
    yield made
    made.close()


def stepper(scheduler: Scheduler) -> BatchedStepper:
    return BatchedStepper(cast(Any, FakeSession()), scheduler, CHUNK, lambda: None)


def test_a_prompts_parts_end_at_multiples_of_the_chunk(
    scheduler: Scheduler, steps: list[list[tuple[int, ...]]]
) -> None:
    assert stepper(scheduler).prefill(range(200), 50)[0] == 199
    assert [[len(tokens) for tokens in step] for step in steps] == [[14], [64], [64], [58]]


def test_answers_that_run_share_every_call(scheduler: Scheduler, steps: list[list[tuple[int, ...]]]) -> None:
    steppers, start = [stepper(scheduler) for _ in range(4)], threading.Barrier(4)

    def write(place: int) -> None:
        start.wait()
        for count in range(20):
            assert steppers[place].forward((place,), count, (0,))[0, 0] == place
        steppers[place].close()

    threads = [threading.Thread(target=write, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(map(len, steps)) == 80
    # A thread that is late by more than the patience misses a call; it is the exception.
    assert sum(len(step) == 4 for step in steps) >= 10


def test_a_failed_call_harms_only_whoever_caused_it(scheduler: Scheduler, steps: list[list[tuple[int, ...]]]) -> None:
    bad, good, errors = stepper(scheduler), stepper(scheduler), list[str]()

    def fail() -> None:
        try:
            bad.forward((POISON,), 0, (0,))
        except InputError as error:
            errors.append(error.code)
        bad.close()

    thread = threading.Thread(target=fail)
    thread.start()
    assert good.forward((7,), 0, (0,))[0, 0] == 7
    thread.join(30)
    assert errors == ["E157"]
    with pytest.raises(InputError, match="E153"):
        good.forward((7,), -1, (0,))


def test_a_session_that_cannot_go_back_tells_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recurrence may have moved on when a call fails: it is not computed again, and the failure is the answer."""
    recurrence: Any = SimpleNamespace(layout="recurrent", role="state", slots=1, window=None, sink_tokens=0)

    def failing(calls: Sequence[SessionCall]) -> list[Any]:
        if not all(call.session.cache.continues_at(call.start) for call in calls):
            raise InputError("The KV cache cannot continue.", code="E153")
        for call in calls:
            call.session.cache.begin(call.start, len(call.tokens))
        raise InputError("The artifact could not be executed.", code="E157")

    monkeypatch.setattr(module, "step", failing)
    both = [asked(order, 1) for order in (1, 2)]
    for one in both:
        one.call.session.cache = CacheContents([recurrence])
        one.call.session.cache.hold([5, 6, 7], 3)
    both = [replace(one, call=replace(one.call, start=3)) for one in both]
    compute_together(both)
    for one in both:
        with pytest.raises(InputError, match="E157"):
            one.made.result(0)


def test_an_answer_that_nobody_wants_is_not_computed(scheduler: Scheduler, steps: list[list[tuple[int, ...]]]) -> None:
    asked_for = iter([None, KeyError("gone")])

    def check() -> None:
        if error := next(asked_for):
            raise error

    # Wanted when it asks, and no more when its turn comes; with another answer there is a turn to wait for.
    stepper(scheduler)
    one = BatchedStepper(cast(Any, FakeSession()), scheduler, CHUNK, check)
    with pytest.raises(KeyError):
        one.forward((1,), 0, (0,))
    assert not steps


def test_what_is_done_between_calls_may_fail(scheduler: Scheduler) -> None:
    assert scheduler.between(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        scheduler.between(lambda: 1 // 0)
    scheduler.close()
    with pytest.raises(Closed):
        scheduler.between(lambda: 5)


def test_as_many_sessions_as_fit_into_the_memory() -> None:
    assert sessions_within(replace(DEFAULT_LIMITS, sessions=8), 100 << 20) == 8
    limits = replace(DEFAULT_LIMITS, sessions=8, memory_bytes=350 << 20)
    assert [sessions_within(limits, size << 20) for size in (10, 100, 300)] == [8, 3, 1]
    with pytest.raises(InputError, match="E645"):
        sessions_within(limits, 400 << 20)
