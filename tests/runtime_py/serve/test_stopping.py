"""A server that is told to stop: answers end in time or with a reason, streams with their last event."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.hosting import hosted_of
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
from edgec.runtime_py.serve.problems import RequestError
from edgec.runtime_py.serve.server import address_of, bound, server_of
from edgec.runtime_py.serve.stopping import Closing, Gone, WorkStop
from tests.runtime_py.serve.running import ASK, LONG, NAME, Running, script


def stopped_within(model: Model, seconds: float, body: dict[str, Any]) -> tuple[int, str]:
    """The status and the text of a request during which the server is told to stop."""
    limits = replace(DEFAULT_LIMITS, closing_seconds=seconds)
    hosted = hosted_of(model, limits)
    with bound("127.0.0.1", 0) as listening:
        server = server_of([hosted], limits, None, local=True)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.005)
        connection = http.client.HTTPConnection(*Running(address_of(listening), (hosted,)).place, timeout=60)
        raw = json.dumps({"model": NAME, "messages": ASK, "temperature": 0, **body})
        connection.request("POST", "/v1/chat/completions", raw, {"Content-Type": "application/json"})
        while not hosted.waiting:
            time.sleep(0.005)
        server.should_exit = True
        answer = connection.getresponse()
        text = answer.read().decode()
        thread.join(30)
        assert not thread.is_alive()
    hosted.close()
    return answer.status, text


def test_an_answer_that_is_nearly_done_is_whole(model: Model) -> None:
    script(model, "Yes.", wait=lambda: time.sleep(0.02))
    status, text = stopped_within(model, 20.0, {"stream": True})
    assert status == 200 and text.endswith("data: [DONE]\n\n") and '"finish_reason": "stop"' in text


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_without_end_is_ended_with_a_reason(model: Model, stream: bool) -> None:
    script(model, LONG, wait=lambda: time.sleep(0.1))
    status, text = stopped_within(model, 0.5, {"stream": stream})
    last = text.strip().split("\n\n")[-1].removeprefix("data: ")
    assert json.loads(last)["error"]["code"] == "E896"
    # The body of the stream ended properly: an unfinished one would have raised.
    assert status == (200 if stream else 503)


def test_nothing_is_begun_once_it_stops() -> None:
    closing, stop = Closing(), WorkStop()
    closing.add(stop)
    closing.end()
    with pytest.raises(RequestError, match="E896"):
        stop.check()
    with pytest.raises(RequestError, match="E896"):
        closing.add(WorkStop())


def test_the_first_reason_counts() -> None:
    stop = WorkStop()
    stop.check()
    stop.set()
    stop.end(ValueError())
    with pytest.raises(Gone):
        stop.check()
