"""Limits of size and time on a phone's answers, however slowly they drip in (on a faked clock)."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from edgec.devices.adb import link as adb_link
from edgec.devices.adb import sync
from edgec.devices.adb.link import ANSWER_S, AdbLink, AnswerLimits, exactly
from edgec.devices.stopping import Stop
from edgec.errors import EdgecError

STEP_S = 0.3


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


class Dripping:
    """A phone's socket that returns a few bytes per call, after a delay, and repeats its last answer forever."""

    def __init__(self, clock: Clock, answer: bytes, piece: int = 1) -> None:
        self.clock, self.answer, self.piece, self.place = clock, answer, piece, 0

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def sendall(self, data: bytes) -> None:
        pass

    def recv(self, count: int) -> bytes:
        self.clock.now += STEP_S
        data = self.answer[self.place : self.place + min(count, self.piece)]
        self.place = (self.place + len(data)) % len(self.answer)
        return data


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (adb_link, sync):
        monkeypatch.setattr(module, "time", made)
    return made


def link_to(phone: Dripping, monkeypatch: pytest.MonkeyPatch) -> AdbLink:
    """A link whose services all read from this socket."""

    @contextmanager
    def service(link: AdbLink, name: str, limit_s: float | None = None) -> Iterator[Any]:
        with link._typed(limit_s or ANSWER_S):
            yield SimpleNamespace(conn=phone)

    made = AdbLink.__new__(AdbLink)
    made.serial, made.where, made.stopping = "A", "adb:A", Stop()
    monkeypatch.setattr(AdbLink, "service", service)
    return made


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack("<BI", kind, len(data)) + data


def test_a_drip_ends_at_the_deadline(clock: Clock) -> None:
    start = clock.now
    with pytest.raises(TimeoutError):
        exactly(SimpleNamespace(conn=Dripping(clock, b"x")), 10**6, clock.now + ANSWER_S)
    assert ANSWER_S <= clock.now - start < ANSWER_S + 2 * STEP_S


@pytest.mark.parametrize("answer", [frame(1, b"x"), frame(1, b""), frame(7, b""), frame(2, b"\n")])
def test_a_shell_that_drips_is_silent(answer: bytes, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    start = clock.now
    with pytest.raises(EdgecError, match="E544"):
        link_to(Dripping(clock, answer), monkeypatch).shell("true")
    assert clock.now - start < ANSWER_S + 2 * STEP_S


def test_events_begin_the_wait_anew_up_to_the_end_of_the_job(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    start, link = clock.now, link_to(Dripping(clock, frame(1, b"event")), monkeypatch)
    with pytest.raises(EdgecError, match="E544"):
        link.shell("true", AnswerLimits(10.0, 100.0), lambda data: b"event" in data)
    assert 100.0 <= clock.now - start < 101.0


def test_an_answer_without_end_is_too_much(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    link = link_to(Dripping(clock, frame(1, b"x" * 60_000), piece=1 << 20), monkeypatch)
    with pytest.raises(EdgecError, match="E575"):
        link.shell("true", AnswerLimits(1e6))
    huge = link_to(Dripping(clock, struct.pack("<BI", 1, 0xFFFFFFFF), piece=5), monkeypatch)
    with pytest.raises(EdgecError, match="E575"):
        huge.shell("true")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (struct.pack("<4sI", b"DATA", 0xFFFFFFFF), "E575"),
        (struct.pack("<4sI", b"JUNK", 4) + b"junk", "E575"),
        (struct.pack("<4sI", b"DATA", 60_000) + b"x" * 60_000, "E575"),
        (struct.pack("<4sI", b"FAIL", 8) + b"\x1b[2Jnope", "E547"),
        (struct.pack("<4sI", b"DATA", 1) + b"x", "E544"),
    ],
)
def test_a_file_that_is_none(answer: bytes, code: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    piece = 1 if code == "E544" else 1 << 20
    with pytest.raises(EdgecError, match=code) as caught:
        sync.receive(link_to(Dripping(clock, answer, piece), monkeypatch), "/data/x", io.BytesIO())
    assert "\x1b" not in str(caught.value)
