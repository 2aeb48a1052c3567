"""Several answers at once: the same as one by one, to the last bit; shared beginnings; clients that go."""

from __future__ import annotations

import gc
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from edgec.runtime_py.model import Model
from edgec.runtime_py.serve import scheduler
from edgec.runtime_py.serve.hosted import Answer, Hosted
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
from edgec.runtime_py.serve.slot_schedulers import BatchedSlots, OneSlot
from edgec.runtime_py.sessions.step import SessionCall, step
from tests.runtime_py.serve.running import NOW, Running, model_of, running

SESSIONS = 8
LIMITS = replace(DEFAULT_LIMITS, sessions=SESSIONS)
# About 150 tokens: two whole chunks and more.
SYSTEM = "Once upon a time there was a little girl called Lily. She had a red ball. " * 5


@pytest.fixture(scope="module")
def model(batched_bundle: Path) -> Model:
    return model_of(batched_bundle)


@pytest.fixture
def server(model: Model) -> Iterator[Running]:
    """A server that remembers nothing yet."""
    with running(model, limits=LIMITS) as made:
        assert isinstance(made.hosted[0], Hosted) and isinstance(made.hosted[0].slots, BatchedSlots)
        yield made


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many sessions each call of the model had."""
    made = list[int]()

    def counted(calls: Sequence[SessionCall]) -> Any:
        made.append(len(calls))
        return step(calls)

    monkeypatch.setattr(scheduler, "step", counted)
    yield made


def body(server: Running, **asked: Any) -> dict[str, Any]:
    said = {"role": "user", "content": asked.pop("said", "Hi")}
    system = asked.pop("system", None)
    messages = [*([{"role": "system", "content": system}] if system else []), said]
    probabilities = {"logprobs": True, "top_logprobs": 2}
    return {"model": server.hosted[0].name, "messages": messages, "max_tokens": 24, **probabilities, **asked}


def ask(server: Running, **asked: Any) -> Any:
    """The choice and the usage of an answer."""
    status, held = server.post("/v1/chat/completions", body(server, **asked))
    assert status == 200, held
    return held["choices"][0], held["usage"]


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["n"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
REQUESTS: tuple[dict[str, Any], ...] = (
    {"said": "a red ball", "temperature": 0},
    {"said": "a red ball", "temperature": 1, "seed": 5},
    {"said": "a red ball", "temperature": 1, "seed": 6, "top_p": 0.9, "repetition_penalty": 1.2},
    {"said": "play outside " * 12, "temperature": 0.7, "seed": 7, "max_tokens": 60},
    {"said": "Once upon a time", "system": SYSTEM, "temperature": 1, "seed": 8},
    {"said": "She had", "system": SYSTEM, "temperature": 0, "stop": ["e"]},
    {"said": "a number", "temperature": 1, "seed": 9, "response_format": FORMAT, "thinking_budget": 0},
    {"said": "Lily", "temperature": 1, "seed": 10, "tools": [NOW], "tool_choice": "none", "max_tokens": 40},
)


@pytest.mark.long
def test_answers_together_are_those_alone_to_the_last_bit(server: Running, model: Model, steps: list[int]) -> None:
    assert len(REQUESTS) == SESSIONS
    with ThreadPoolExecutor(SESSIONS) as pool:
        together = list(pool.map(lambda asked: ask(server, **asked)[0], REQUESTS))
    assert max(steps) > 2, "some calls of the model had several sessions"
    steps.clear()
    for asked, choice in zip(REQUESTS, together, strict=True):
        # On a server of its own, which holds no beginning; and here, where other answers have left theirs.
        with running(model, limits=LIMITS) as fresh:
            assert ask(fresh, **asked)[0] == choice
        assert ask(server, **asked)[0] == choice
    assert max(steps) == 1


@pytest.mark.long
def test_a_beginning_that_another_answer_is_reading_is_copied(
    server: Running, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, usage = ask(server, system=SYSTEM, said="Go", temperature=1, seed=1)
    prompts = [
        model.message_format.prompt(body(server, system=SYSTEM, said=said)["messages"]) for said in ("Go", "Another")
    ]
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*prompts, strict=False))) // 64 * 64
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0 and shared >= 64
    with running(model, limits=LIMITS) as other:
        gate, reached = threading.Event(), threading.Event()

        def wait(count: int) -> None:
            if count >= 8:
                reached.set()
                gate.wait(30)

        gated(monkeypatch, wait)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(ask, other, system=SYSTEM, said="Another", temperature=0)
            assert reached.wait(30)
            second = pool.submit(ask, other, system=SYSTEM, said="Go", temperature=1, seed=1)
            while other.hosted[0].waiting < 2:
                time.sleep(0.005)
            gate.set()
            choice, usage = second.result(30)
            first.result(30)
    assert choice == alone
    assert usage["prompt_tokens_details"]["cached_tokens"] == shared


def gated(monkeypatch: pytest.MonkeyPatch, wait: Callable[[int], object]) -> list[int]:
    """Call ``wait`` with the number of calls so far before each; returns how many sessions each had."""
    made = list[int]()

    def slow(calls: Sequence[SessionCall]) -> Any:
        wait(len(made))
        made.append(len(calls))
        return step(calls)

    monkeypatch.setattr(scheduler, "step", slow)
    return made


def test_what_goes_on_from_an_answer_computes_nothing_again(server: Running, model: Model) -> None:
    prompt = [1, *range(30, 50)]
    said = model.generate(prompt, max_new_tokens=8).tokens

    def cached(tokens: Sequence[int]) -> int:
        asked = {"model": server.hosted[0].name, "prompt": list(tokens), "max_tokens": 8, "temperature": 0}
        status, held = server.post("/v1/completions", asked)
        assert status == 200, held
        return int(held["usage"]["prompt_tokens_details"]["cached_tokens"])

    assert cached(prompt) == 0
    # Its beginning alone is less than a chunk.
    assert cached([*prompt, said[0] + 1]) == 0
    # The last token of an answer was not fed to the model.
    assert cached([*prompt, *said, 40]) == len(prompt) + len(said) - 1


def stopped_answers() -> list[Answer]:
    return [one for one in gc.get_objects() if isinstance(one, Answer) and one._stopped.is_set()]


def eventually(condition: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


@pytest.mark.long
def test_a_closed_connection_stops_decoding_within_a_token(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, reached = threading.Semaphore(0), threading.Event()

    def wait(_: int) -> None:
        if not gate.acquire(blocking=False):
            reached.set()
            assert gate.acquire(timeout=30)

    calls, earlier = gated(monkeypatch, wait), stopped_answers()
    create: Any = server.client().chat.completions.create
    with ThreadPoolExecutor(2) as pool:
        stays = pool.submit(ask, server, said="stay", temperature=0, max_tokens=40)
        assert reached.wait(30)
        reached.clear()
        goes = pool.submit(create, **body(server, said="go", temperature=0), stream=True)
        while server.hosted[0].waiting < 2:
            time.sleep(0.005)
        # Call by call until one has both; few enough for the first answer not to end.
        for _ in range(30):
            gate.release()
            if eventually(lambda: 2 in calls, within_s=2):
                break
        assert 2 in calls
        goes.result(20).close()
        assert eventually(lambda: len(stopped_answers()) > len(earlier), within_s=20)
        so_far = len(calls)
        for _ in range(200):
            gate.release()
        assert stays.result(30)[0]["finish_reason"] in ("length", "stop")
    # The call that waited at the gate may have had both.
    assert 2 not in calls[so_far + 1 :]


def test_a_bundle_whose_sessions_cannot_share_a_call_takes_turns(tiny_bundle: Path) -> None:
    hosted = Hosted(model_of(tiny_bundle), LIMITS)
    assert isinstance(hosted.slots, OneSlot) and "among the activations" in hosted.slots.why
    hosted.close()


def test_one_session_takes_turns_with_all_of_its_cache(model: Model) -> None:
    with running(model, limits=replace(LIMITS, sessions=1)) as server:
        ask(server, said="a red ball", temperature=0)
        _, usage = ask(server, said="a red ball", temperature=0)
        assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


def test_health_tells_the_sessions(server: Running) -> None:
    with urllib.request.urlopen(server.url.removesuffix("/v1") + "/health", timeout=30) as answer:
        assert json.load(answer)["sessions"] == {server.hosted[0].name: SESSIONS}
