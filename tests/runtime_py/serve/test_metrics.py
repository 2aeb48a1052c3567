"""What /metrics tells, in the form that Prometheus reads."""

from __future__ import annotations

import http.client
import re

from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.measures import TimeHistogram
from edgec.runtime_py.serve.metrics import _escaped
from tests.runtime_py.serve.running import ASK, NAME, Running, running

LINE = re.compile(r'(# (HELP|TYPE) edgec_\w+ .+|edgec_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [0-9.e+-]+)')


def told(server: Running, key: str = "") -> tuple[int, dict[str, float]]:
    connection = http.client.HTTPConnection(*server.place, timeout=60)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {key}"} if key else {})
    answer = connection.getresponse()
    lines = answer.read().decode().splitlines()
    connection.close()
    if answer.status != 200:
        return answer.status, {}
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert all(LINE.fullmatch(line) for line in lines)
    values = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return answer.status, {name: float(value) for name, _, value in values}


def test_tokens_answers_times_and_caches_are_counted(model: Model) -> None:
    with running(model) as server:
        of = f'{{model="{NAME}"'
        assert told(server)[1][f"edgec_time_to_first_token_seconds_count{of}}}"] == 0
        made = server.client().chat.completions.create(model=NAME, messages=ASK, max_tokens=5, temperature=0)
        server.post("/v1/chat/completions", {"model": NAME, "messages": []})
        server.settle()
        held = told(server)[1]
        assert made.usage is not None
        assert held[f'edgec_tokens_total{of},kind="new"}}'] == made.usage.completion_tokens
        assert held[f'edgec_tokens_total{of},kind="prompt"}}'] == made.usage.prompt_tokens
        assert held['edgec_requests_total{path="/v1/chat/completions",status="200"}'] == 1
        assert held['edgec_requests_total{path="/v1/chat/completions",status="400"}'] == 1
        assert held[f"edgec_time_to_first_token_seconds_count{of}}}"] == 1
        assert held[f'edgec_time_to_first_token_seconds_bucket{of},le="+Inf"}}'] == 1
        assert 0 < held[f"edgec_kv_cache_tokens{of}}}"] <= held[f"edgec_kv_cache_capacity_tokens{of}}}"]
        assert held[f"edgec_waiting{of}}}"] == 0
        assert sum(count for name, count in held.items() if name.startswith("edgec_answers_total")) == 1


def test_the_key_guards_it(model: Model) -> None:
    with running(model, key="secret") as server:
        assert told(server)[0] == 401
        assert told(server, "secret")[0] == 200


def test_buckets_hold_what_is_not_above_them() -> None:
    held = TimeHistogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        held.add(value)
    assert (held.counts, held.total) == ([2, 1, 1], 12.0)


def test_names_are_escaped() -> None:
    assert _escaped('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
