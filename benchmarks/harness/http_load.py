"""A server of OpenAI's API under load: tokens per second of all streams, and a request that comes meanwhile.

Standard library only, so that the client takes little of the machine that the server runs on. A job has ``command``
(the server), ``port`` (of loopback, on which it listens), ``model``, ``vocab_size``, ``most`` (tokens that each stream
asks for), ``fields`` (sent with every request, beside OpenAI's) and ``loads``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from itertools import count
from threading import Event, Thread
from time import perf_counter
from typing import Any

from benchmarks.harness.serving_load import Load, Measured, gaps_between, random_prompt

WORKER = "benchmarks.harness.http_load"
_START_S, _POLL_S, _TAIL = 600.0, 0.002, 600
_DATA = b"data: {"
_SEEDS = 10_000


@dataclass(frozen=True)
class Endpoint:
    """A server that runs.

    Attributes:
        port: of loopback.
        model: the name that requests give.
        vocab_size: token ids of prompts are below it.
        most: tokens that a stream asks for.
        fields: sent beside OpenAI's.
    """

    port: int
    model: str
    vocab_size: int
    most: int
    fields: Mapping[str, Any]

    def tokens(self, seed: int, length: int) -> Iterator[float]:
        """When each token of an answer to a random prompt came; closing the iterator closes the connection.

        Raises:
            RuntimeError: the request was refused, or events are not tokens.
        """
        connection = HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request(
                "POST", "/v1/completions", self._body(seed, length), {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            if response.status != 200:
                raise RuntimeError(f"status {response.status}: {response.read(_TAIL)!r}")
            yield from self._times(response)
        finally:
            connection.close()

    def _body(self, seed: int, length: int) -> str:
        prompt = random_prompt(seed, length, self.vocab_size)
        asked = {"model": self.model, "prompt": prompt, "max_tokens": self.most, "temperature": 0, "stream": True}
        return json.dumps({**asked, **self.fields})

    def _times(self, lines: Iterator[bytes] | Any) -> Iterator[float]:
        events = 0
        for line in lines:
            if line.startswith(_DATA) and json.loads(line[len(_DATA) - 1 :])["choices"][0]["text"]:
                events += 1
                yield perf_counter()
        if events != self.most:
            raise RuntimeError(f"an answer of {self.most} tokens came in {events} events")


class Writer(Thread):
    """A client that reads its stream until it is told to stop."""

    def __init__(self, tokens: Iterator[float], stop: Event) -> None:
        super().__init__(daemon=True)
        self._tokens, self._stop_asked = tokens, stop
        self.times: list[float] = []
        self.failure = "its answer ended"

    def run(self) -> None:
        """Read."""
        try:
            for time_s in self._tokens:
                self.times.append(time_s)
                if self._stop_asked.is_set():
                    break
        except (RuntimeError, OSError) as error:
            self.failure = str(error)
        finally:
            self._tokens.close()  # type: ignore[attr-defined]


def _until(reached: Callable[[], bool], writers: Sequence[Writer]) -> None:
    """Wait; all must still write then.

    Raises:
        RuntimeError: a stream ended before.
    """
    while True:
        there = reached()
        ended = [writer.failure for writer in writers if not writer.is_alive()]
        if ended:
            raise RuntimeError(f"{len(ended)} of {len(writers)} streams ended too early: {ended[0]}")
        if there:
            return
        time.sleep(_POLL_S)


def measure(server: Endpoint, load: Load) -> Measured:
    """Measure one load, as `benchmarks.harness.serving_load.measure` does, by clients."""
    # No prompt comes twice: a server may keep what it has computed.
    stop, seeds = Event(), count(load.sessions * _SEEDS)
    writers = [Writer(server.tokens(next(seeds), load.prompt_tokens), stop) for _ in range(load.sessions)]
    for writer in writers:
        writer.start()
    try:
        _until(lambda: all(writer.times for writer in writers), writers)
        tokens_per_s = _throughput(writers, load.steps)
        arrivals = [_arrive(server, load, next(seeds), writers) for _ in range(load.arrivals + 1)][1:]
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    gaps = tuple(gap for _, some in arrivals for gap in some)
    return Measured(load.sessions, tokens_per_s, tuple(ttft for ttft, _ in arrivals), gaps)


def _throughput(writers: Sequence[Writer], steps: int) -> float:
    """Tokens per second of all, from now until each has written that many more."""
    begun, before = perf_counter(), [len(writer.times) for writer in writers]
    _until(lambda: all(len(w.times) >= had + steps for w, had in zip(writers, before, strict=True)), writers)
    seconds = perf_counter() - begun
    return sum(len(w.times) - had for w, had in zip(writers, before, strict=True)) / seconds


def _arrive(server: Endpoint, load: Load, seed: int, writers: Sequence[Writer]) -> tuple[float, list[float]]:
    """The ms until the first token of a request, and those between tokens of the others meanwhile."""
    begun = perf_counter()
    stream = server.tokens(seed, load.prompt_tokens)
    arrived = next(stream)
    stream.close()  # type: ignore[attr-defined]
    _until(lambda: True, writers)
    gaps = [gap for writer in writers for gap in gaps_between(writer.times, begun, arrived)]
    return (arrived - begun) * 1e3, gaps


@contextmanager
def running(job: Mapping[str, Any]) -> Iterator[Endpoint]:
    """The job's server, from the moment at which it answers until it is killed.

    Raises:
        RuntimeError: it ended, or did not answer in time.
    """
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(job["command"], stdout=said, stderr=said)
        try:
            _wait_for(process, job["port"], time.monotonic() + _START_S)
            yield Endpoint(job["port"], job["model"], job["vocab_size"], job["most"], job["fields"])
        except RuntimeError as error:
            said.seek(0)
            raise RuntimeError(f"{error}; the server said: {said.read()[-_TAIL:].decode(errors='replace')}") from error
        finally:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int, end: float) -> None:
    while not _healthy(port):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        if time.monotonic() > end:
            raise RuntimeError(f"the server did not answer within {_START_S:.0f} s")
        time.sleep(0.1)


def _healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def work(job: Mapping[str, Any]) -> list[Measured]:
    """Measure all loads of a job on one server."""
    with running(job) as server:
        return [measure(server, Load(**fields)) for fields in job["loads"]]


if __name__ == "__main__":
    rows = [asdict(one) for one in work(json.load(sys.stdin))]
    print("\n" + json.dumps({"rows": rows}))
