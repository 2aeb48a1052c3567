"""Clients in numbers, clients that leave, and nonsense, of a server that takes turns and of one that batches.

Nothing is left behind: no thread, no file, no answer, no memory.
"""

from __future__ import annotations

import gc
import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.harness.jobs import status_bytes
from edgec.free_memory import return_free_memory
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.hosted import Answer, Hosted
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
from edgec.runtime_py.serve.slot_schedulers import BatchedSlots, OneSlot
from tests.example_counts import examples
from tests.runtime_py.serve.running import ASK, Running, model_of, running

LIMITS = replace(DEFAULT_LIMITS, sessions=8)
# 1,000 requests left 0.4 MiB of the C library's own; ten times as much is 4 KiB a request, less than an answer holds.
GROWTH_BYTES = 4 << 20
SCHEDULERS = {"turns": ("tiny_bundle", OneSlot), "batch": ("batched_bundle", BatchedSlots)}


@pytest.fixture(scope="module", params=SCHEDULERS)
def slots(request: pytest.FixtureRequest) -> str:
    """A row of SCHEDULERS."""
    return str(request.param)


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest, slots: str) -> Model:
    return model_of(request.getfixturevalue(SCHEDULERS[slots][0]))


@pytest.fixture(scope="module")
def server(model: Model, slots: str) -> Iterator[Running]:
    with running(model, limits=LIMITS) as made:
        assert isinstance(made.hosted[0], Hosted) and isinstance(made.hosted[0].slots, SCHEDULERS[slots][1])
        yield made


@pytest.mark.long
def test_twenty_clients_at_once_with_cancellations(server: Running, model: Model) -> None:
    expected = model.chat("").send("Hi", max_new_tokens=10).text

    client = server.client()

    def whole(_: int) -> str | None:
        made = client.chat.completions.create(model=server.name, messages=ASK, temperature=0, max_tokens=10)
        return made.choices[0].message.content

    def cancelled(place: int) -> None:
        stream = client.chat.completions.create(
            model=server.name, messages=ASK, temperature=1, max_tokens=60, stream=True
        )
        for count, _ in enumerate(stream):
            if count == place % 3:
                stream.close()
                return

    with ThreadPoolExecutor(20) as pool:
        left = [pool.submit(cancelled, place) for place in range(10)]
        texts = list(pool.map(whole, range(10)))
        for one in left:
            one.result()
    assert texts == [expected] * 10
    server.settle()


def _one(server: Running, client: openai.OpenAI, place: int) -> None:
    chat: Any = client.chat.completions.create
    match place % 5:
        case 0:
            chat(model=server.name, messages=ASK, max_tokens=3)
        case 1:
            stream = chat(model=server.name, messages=ASK, max_tokens=6, stream=True)
            next(iter(stream))
            stream.close()
        case 2:
            list(client.completions.create(model=server.name, prompt="Once", max_tokens=3, stream=True, logprobs=2))
        case 3:
            with pytest.raises(openai.BadRequestError):
                chat(model=server.name, messages=ASK, n=300)
        case _:
            server.sent({"max_tokens": 5}).close()


@dataclass(frozen=True)
class Held:
    """What the process holds while nothing is computed."""

    threads: int
    files: int
    answers: int
    resident_bytes: int


def _held() -> Held:
    gc.collect()
    return_free_memory()
    # Not isinstance, which asks lazy modules for their class and so imports them: 60 MiB.
    answers = sum(type(one) is Answer for one in gc.get_objects())
    resident = status_bytes("VmRSS")
    assert resident is not None
    return Held(threading.active_count(), len(os.listdir("/proc/self/fd")), answers, resident)


def _after(server: Running, client: openai.OpenAI, count: int) -> Held:
    for place in range(count):
        _one(server, client, place)
    server.settle()
    time.sleep(0.2)
    return _held()


def _settled(server: Running, client: openai.OpenAI, count: int, before: Held) -> Held:
    """What is held after requests, once files and answers are no more than before or 20 s have passed."""
    after = _after(server, client, count)
    deadline = time.monotonic() + 20
    while (after.files, after.answers) > (before.files, before.answers) and time.monotonic() < deadline:
        time.sleep(0.05)
        after = _held()
    return after


@pytest.mark.long
@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_nothing_is_left_behind(server: Running, count: int) -> None:
    client = server.client()
    before = _after(server, client, 50)  # What is loaded, and grows to its size, once; also by looking.
    growth = []
    # What leaks grows in every round; what the C library keeps of a process that ran other tests grows in one.
    for _ in range(4):
        after = _settled(server, client, count, before)
        # Threads of the pool for blocking calls come as they are needed, up to a bound of their own.
        assert after.threads <= before.threads + 40
        assert after.files <= before.files + 3
        assert after.answers <= before.answers + 1
        growth.append(after.resident_bytes - before.resident_bytes)
        if growth[-1] <= GROWTH_BYTES:
            return
        before = after
    raise AssertionError(f"memory grew in every round of {count} requests: {growth} bytes")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("messages", "prompt", "stream", "stop", "tools", "tool_choice", "response_format", "temperature", "seed",
        "logprobs", "top_logprobs", "max_tokens", "stream_options", "thinking_budget", "x")  # fmt: skip


@settings(max_examples=examples(40), deadline=None)
@given(
    change=st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1, max_size=3),
    path=st.sampled_from(["chat/completions", "completions"]),
    stream=st.booleans(),
)
def test_fuzzed_bodies_are_answered_or_refused(
    server: Running, change: dict[str, Any], path: str, stream: bool
) -> None:
    asked = {"messages": ASK} if path.startswith("chat") else {"prompt": "a"}
    try:
        raw = json.dumps({"model": server.name, "max_tokens": 1, "stream": stream, **asked, **change}).encode()
    except ValueError:
        return
    status, held = server.post(f"/v1/{path}", raw)
    assert status in (200, 400, 422), held
    if status == 200:
        _assert_an_answer(held)
    else:
        assert held["error"]["code"].startswith("E")


def _assert_an_answer(held: Any) -> None:
    """An object, or the events of a stream, which end with the answer or with a call that was cut short."""
    *before, last = held if isinstance(held, list) else [held, "[DONE]"]
    assert before and all(one["object"] for one in before)
    assert last == "[DONE]" or last["error"]["code"] == "E623", last
