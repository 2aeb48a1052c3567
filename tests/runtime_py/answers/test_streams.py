"""Text piece by piece: the same as in one go, stopped by closing, one at a time on a session, and for asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from edgec.errors import InputError
from edgec.runtime_py.answers.generation_arguments import GenerationArguments
from edgec.runtime_py.answers.streams import AsyncStream, Stream, Streaming
from edgec.runtime_py.generation.generate import Generation, GenerationRequest, generate, pieces, shorten
from edgec.runtime_py.sessions.turn import Turn
from tests.runtime_py.fake_stepper import FakeStepper, sums

PROMPT = [1, 2, 3]


def letters(tokens: list[int]) -> str:
    return "".join(chr(ord("A") + token % 26) for token in tokens)


class Letters(Streaming):
    """A model of letters with one session, as `Model` is built."""

    def __init__(self) -> None:
        self.stepper, self.turn = FakeStepper(sums), Turn()

    def _pieces(self, asked: GenerationArguments) -> Generator[str, None, Generation]:
        prompt, request = [ord(str(c)) % 64 for c in asked.prompt], GenerationRequest(**asked.options)
        with self.turn:
            return (yield from pieces(self.stepper, prompt, request, letters))


def whole(count: int) -> Generation:
    return generate(FakeStepper(sums), PROMPT, GenerationRequest(count), letters)


def stream(count: int, stepper: FakeStepper | None = None) -> Stream[str, Any]:
    return Stream(pieces(stepper or FakeStepper(sums), PROMPT, GenerationRequest(count), letters))


def test_pieces_are_the_whole_text_and_the_result_comes_with_the_last() -> None:
    made = stream(12)
    assert made.result is None
    parts = list(made)
    assert all(parts) and "".join(parts) == whole(12).text
    assert made.result is not None and made.result.tokens == whole(12).tokens
    assert list(made) == [] and made.result.text == whole(12).text, "asking again changes nothing"


def test_a_piece_is_computed_when_it_is_asked_for() -> None:
    stepper = FakeStepper(sums)
    made = stream(12, stepper)
    assert stepper.calls == []
    next(made)
    assert len(stepper.calls) == 1
    next(made)
    assert len(stepper.calls) == 2


def test_leaving_the_loop_stops_the_generation() -> None:
    model = Letters()
    for _ in model.stream("abc", max_new_tokens=20):
        break
    steps = len(model.stepper.calls)
    with model.stream("abc", max_new_tokens=20) as made:
        next(made)
    assert made.result is None and len(model.stepper.calls) == steps + 1
    assert len("".join(model.stream("abc", max_new_tokens=5))) == 5, "the session is free again"


def test_a_second_text_beside_an_open_stream_is_refused() -> None:
    model = Letters()
    first = model.stream("abc", max_new_tokens=5)
    next(first)
    with pytest.raises(InputError) as refused:
        next(model.stream("xyz", max_new_tokens=5))
    assert refused.value.code == "E179"
    assert len("".join(first)) == 4, "the first goes on as if nothing had happened"
    assert len("".join(model.stream("xyz", max_new_tokens=5))) == 5


def test_another_thread_waits_for_the_end_of_a_stream() -> None:
    model, done = Letters(), []
    first = model.stream("abc", max_new_tokens=3)
    next(first)
    other = threading.Thread(target=lambda: done.append("".join(model.stream("xyz", max_new_tokens=3))))
    other.start()
    other.join(0.05)
    assert not done
    list(first)
    other.join(10)
    assert [len(text) for text in done] == [3]


def test_async_pieces_are_the_same_and_leave_the_loop_free() -> None:
    async def run() -> tuple[list[str], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(tick())
        made = AsyncStream(stream(12))
        parts = [piece async for piece in made]
        beside.cancel()
        assert made.result is not None and made.result.tokens == whole(12).tokens
        return parts, ticks

    parts, ticks = asyncio.run(run())
    assert "".join(parts) == whole(12).text and ticks > 0


def test_a_whole_text_is_awaited() -> None:
    result = asyncio.run(Letters().generate_async("abc", max_new_tokens=6))
    assert isinstance(result, Generation) and len(result.tokens) == 6


def test_a_cancelled_task_stops_the_generation() -> None:
    model, begun = Letters(), threading.Event()
    forward = model.stepper.forward

    def slow(tokens: Sequence[int], start: int, rows: Sequence[int]) -> Any:
        begun.set()
        threading.Event().wait(0.01)
        return forward(tokens, start, rows)

    model.stepper.forward = slow  # type: ignore[method-assign]

    async def run() -> None:
        task = asyncio.create_task(model.generate_async("abc", max_new_tokens=50))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    steps = len(model.stepper.calls)
    assert steps < 50
    assert len("".join(model.stream("abc", max_new_tokens=4))) == 4, "the session is free again"


def test_errors_reach_the_one_who_awaits() -> None:
    async def run() -> None:
        async for _ in Letters().stream_async(""):
            pass

    with pytest.raises(InputError) as refused:
        asyncio.run(run())
    assert refused.value.code == "E151"


def test_reprs_are_short() -> None:
    made = whole(40)
    assert len(repr(made)) < 150 and "40 tokens" in repr(made) and "finish_reason='length'" in repr(made)
    assert shorten("x" * 100) == "x" * 59 + "…" and shorten("short") == "short"


def test_asking_for_more_after_the_end_ends_again() -> None:
    async def run() -> list[str]:
        ended, left = Letters().stream_async("abc", max_new_tokens=3), Letters().stream_async("abc", max_new_tokens=3)
        assert [piece async for piece in ended]
        await anext(left)
        await left.aclose()
        return [*[piece async for piece in ended], *[piece async for piece in left]]

    assert asyncio.run(run()) == []
