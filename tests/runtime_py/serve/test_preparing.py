"""What comes before an answer's turn: plain requests never wait for a schema, and nobody computes for a client gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from starlette.requests import Request

from edgec.runtime_py.model import Model
from edgec.runtime_py.serve import app, preparing
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
from edgec.runtime_py.serve.preparing import until_gone
from edgec.runtime_py.serve.wanted_answer import WantedAnswer, wanted_message
from edgec.runtime_py.structured.patience import require_wanted
from tests.runtime_py.serve.running import ASK, NAME, NOW, Running, running, script
from tests.runtime_py.structured.hostile import BEYOND

HELD: dict[str, Any] = {"model": NAME, "messages": ASK, "max_tokens": 4, "response_format": {"type": "json_object"}}
PLAIN: dict[str, Any] = {"model": NAME, "messages": ASK, "max_tokens": 1}
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


class Slow:
    """Preparing requests with a structure takes until the gate opens, or until they are not wanted any more."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.began = self.stopped = 0

    def __call__(self, model: Model, body: Any) -> WantedAnswer:
        if body.response_format is None and not body.tools:
            return wanted_message(model, body)
        self.began += 1
        try:
            while not self.gate.wait(0.01):
                require_wanted()
        except Exception:
            self.stopped += 1
            raise
        return wanted_message(model, body)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    made = Slow()
    monkeypatch.setattr(app, "wanted_message", made)
    yield made
    made.gate.set()


@pytest.fixture(scope="module")
def short(model: Model) -> Iterator[Running]:
    with running(model, limits=replace(DEFAULT_LIMITS, answer_seconds=1.0)) as made:
        yield made


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.long
@pytest.mark.parametrize("more", [HELD, {**HELD, "response_format": None, "tools": [NOW]}])
def test_plain_requests_pass_those_with_structures(server: Running, model: Model, slow: Slow, more: Any) -> None:
    script(model, "{}")
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(server.post, CHAT, more) for _ in range(20)]
        until(lambda: slow.began == 2)
        for _ in range(3):
            assert server.post(CHAT, PLAIN)[0] == 200
            assert server.post(TEXT, {"model": NAME, "prompt": "a", "max_tokens": 1})[0] == 200
        assert slow.began == 2 and not any(one.done() for one in waiting)
        slow.gate.set()
        assert {one.result()[0] for one in waiting} == {200}


def test_a_client_that_goes_is_prepared_for_no_longer(
    server: Running, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[Request] = []

    async def noted(request: Request, stop: Callable[[], Any]) -> None:
        await until_gone(request, stop)
        known.append(request)

    monkeypatch.setattr(preparing, "until_gone", noted)
    begun = [server.sent({"response_format": {"type": "json_object"}}) for _ in range(2)]
    until(lambda: slow.began == 2)
    waiting = [server.sent({"response_format": {"type": "json_object"}}) for _ in range(2)]
    # The others first: one that waits would take the place of one that stops before its own client is known to go.
    for client in waiting:
        client.close()
    until(lambda: len(known) == 2)
    for client in begun:
        client.close()
    until(lambda: slow.stopped == 2)
    time.sleep(0.1)
    assert slow.began == 2, "those that waited were not begun"


def test_the_time_of_an_answer_holds_before_its_turn(short: Running, slow: Slow) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = [one.result() for one in [pool.submit(short.post, CHAT, HELD) for _ in range(4)]]
    assert {(status, held["error"]["code"]) for status, held in made} == {(504, "E637")}
    until(lambda: slow.stopped == slow.began)


def test_preparing_one_request_has_a_time_of_its_own(model: Model, slow: Slow) -> None:
    with running(model, limits=replace(DEFAULT_LIMITS, prepare_seconds=0.2)) as hasty:
        status, held = hasty.post(CHAT, HELD)
        assert (status, held["error"]["code"]) == (504, "E637") and "Preparing" in held["error"]["message"]
    assert slow.stopped == 1


def test_only_so_many_wait_to_be_prepared(model: Model, slow: Slow) -> None:
    script(model, "{}")
    with running(model, limits=replace(DEFAULT_LIMITS, waiting=1)) as narrow, ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(narrow.post, CHAT, HELD) for _ in range(6)]
        until(lambda: sum(one.done() for one in asked) == 3)
        assert {one.result()[0] for one in asked if one.done()} == {429} and slow.began == 2
        slow.gate.set()
        # One of the three may find as many waiting for their turn.
        assert sorted(one.result()[0] for one in asked)[:2] == [200, 200]


@pytest.mark.long
def test_nothing_that_a_request_brings_ends_the_server(server: Running, model: Model) -> None:
    script(model, "{}")
    for name, asked in BEYOND.items():
        if "grammar" in asked:
            body = {**PLAIN, "grammar": asked["grammar"]}
        else:
            body = {**PLAIN, "response_format": _response_format(asked["schema"])}
        status, held = server.post(CHAT, body)
        assert (status, held["error"]["code"]) == (400, "E614"), name
        tool = {"type": "function", "function": {"name": "f", "parameters": asked.get("schema", {"type": "object"})}}
        assert server.post(CHAT, {**PLAIN, "tools": [tool]})[0] in (200, 400), name
    assert server.post(CHAT, PLAIN)[0] == 200


def _response_format(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "hostile", "schema": schema}}
