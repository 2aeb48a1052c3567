"""The client of servers under load: what it counts, and what it refuses to count."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import serving
from benchmarks.harness import servers
from benchmarks.harness.artifacts import Workshop
from benchmarks.harness.http_load import Endpoint, measure, running, work
from benchmarks.harness.models import TINY
from benchmarks.harness.serving_load import Load
from benchmarks.harness.subjects import OWN, edgec, llama

# Writes as many events as the model's name says, each of them so many words, at once or slowly.
FAKE = """
import json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["model"] == "refused":
            self.send_response(400); self.end_headers(); self.wfile.write(b"no such model"); return
        self.send_response(200); self.end_headers(); time.sleep(0.02)
        for _ in range(asked["max_tokens"] // int(asked["model"])):
            piece = {"choices": [{"text": "t1 "}]}
            self.wfile.write(b"data: " + json.dumps(piece).encode() + b"\\n\\n"); self.wfile.flush(); time.sleep(0.002)
        self.wfile.write(b"data: " + json.dumps({"choices": [{"text": ""}]}).encode() + b"\\n\\ndata: [DONE]\\n\\n")
    def log_message(self, *_): pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
"""


def job(**changes: Any) -> dict[str, Any]:
    port = servers._free_port()
    command = [sys.executable, "-c", FAKE, str(port)]
    return {"command": command, "port": port, "model": "1", "vocab_size": 50, "most": 2000, "fields": {}, **changes}


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with running(job()) as made:
        yield made


def test_streams_are_counted_and_requests_come_while_they_are_written(server: Endpoint) -> None:
    made = measure(server, Load(sessions=3, prompt_tokens=5, steps=10, arrivals=2))
    assert made.sessions == 3 and made.tokens_per_s > 0 and len(made.ttft_ms) == 2 and made.gap_ms


def test_no_prompt_comes_twice(server: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    tokens = Endpoint.tokens

    def noted(server: Endpoint, seed: int, length: int) -> Iterator[float]:
        seen.append(seed)
        return tokens(server, seed, length)

    monkeypatch.setattr(Endpoint, "tokens", noted)
    for sessions in (1, 2):
        measure(server, Load(sessions, prompt_tokens=5, steps=4, arrivals=2))
    assert len(seen) == len(set(seen)) == 1 + 2 + 2 * 3


def test_a_server_that_puts_several_tokens_into_an_event_is_not_counted() -> None:
    with running(job(model="2", most=20)) as server, pytest.raises(RuntimeError, match="20 tokens came in 10 events"):
        list(server.tokens(0, 5))


def test_a_stream_that_ends_while_others_write_is_an_error() -> None:
    with running(job(most=5)) as server, pytest.raises(RuntimeError, match="streams ended too early: its answer ended"):
        measure(server, Load(sessions=2, prompt_tokens=5, steps=10, arrivals=2))


def test_a_refused_request_and_a_server_that_does_not_start_are_errors_with_what_was_said() -> None:
    with running(job(model="refused")) as server, pytest.raises(RuntimeError, match="status 400: b'no such model'"):
        next(server.tokens(0, 5))
    broken = [sys.executable, "-c", "raise SystemExit('no port is left')"]
    with pytest.raises(RuntimeError, match="ended with status 1; the server said: no port is left"):
        work(job(command=broken, loads=[]))


def test_jobs_start_each_server_with_the_same_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "llama_server", lambda _: Path("llama-server"))
    sizes = {"artifact": "model.gguf", "threads": 2, "context": 512, "sequences": 17, "loads": [{"sessions": 16}]}
    peer, own = (
        servers.server_job(Workshop(tmp_path, "x"), subject, sizes)
        for subject in (llama(TINY, "llama.cpp", "equal"), edgec(TINY, OWN))
    )
    assert peer["command"][1:3] == ["--model", "model.gguf"] and peer["command"][-1] == str(17 * 512)
    assert own["command"][1:5] == ["-m", "edgec", "serve", "model.gguf"] and own["command"][-1] == "17"
    assert peer["most"] == own["most"] == 512 - 128 - 1 and peer["fields"] and not own["fields"]


@pytest.mark.slow
@pytest.mark.long
def test_edgec_serve_is_measured_by_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_cache", lambda _: {})  # the tests' own, in which the engine is compiled already
    # Answers that are long enough for a tiny model to write until all requests have come, on a busy machine too.
    load, context = {"prompt_tokens": 8, "steps": 4, "arrivals": 2}, 4096
    options = serving.Options(TINY, (2,), 1, 1, load, servers=True, context=context)
    rows, failed = serving.measure(
        Workshop(tmp_path, "x"), options, [edgec(TINY, OWN, context=context)], lambda _: None
    )
    assert not failed and [(row.tokens_per_s > 0, row.ttft_p50_ms > 0) for row in rows] == [(True, True)]
