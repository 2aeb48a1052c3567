"""The benchmark of several sessions: what its loop feeds, and how its figures are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import serving
from benchmarks.harness import edgec_slots
from benchmarks.harness.artifacts import Made, Workshop
from benchmarks.harness.edgec_sequences import EdgecSequences
from benchmarks.harness.models import TINY
from benchmarks.harness.processes import ProcessFailed
from benchmarks.harness.serving_load import Fed, Load, measure
from benchmarks.harness.subjects import OWN, edgec, llama


class Recorded:
    """A model that says a sequence's next position, and remembers what it was fed."""

    vocab_size = 50

    def __init__(self) -> None:
        self.calls: list[list[Fed]] = []

    def step(self, fed: Sequence[Fed]) -> list[int]:
        self.calls.append(list(fed))
        return [one.start + len(one.tokens) for one in fed if one.wanted]


def test_each_sequence_goes_on_where_it_was_and_prompts_are_read_beside_them() -> None:
    model = Recorded()
    made = measure(model, Load(sessions=3, prompt_tokens=10, steps=4, arrivals=2, chunk=4))
    assert made.sessions == 3 and made.tokens_per_s > 0 and len(made.ttft_ms) == 2
    # Three parts of a prompt for each request that comes.
    assert len(made.gap_ms) == 6
    positions = [[one.start for call in model.calls for one in call if one.sequence == i] for i in range(3)]
    # A prompt in parts, three steps that are not counted, those that are, and one beside each part of a prompt.
    steps = 3 + 4 + 3 * 3
    assert positions == [[0, 4, 8, *range(10, 10 + steps)]] * 3
    beside = [one for call in model.calls for one in call if one.sequence == 3]
    assert [(one.start, len(one.tokens), one.wanted) for one in beside] == [
        (0, 4, False),
        (4, 4, False),
        (8, 2, True),
    ] * 3
    assert all(len(call) == 4 for call in model.calls if any(one.sequence == 3 for one in call))


def rows(*speeds: float) -> list[dict[str, object]]:
    return [
        {"sessions": count, "tokens_per_s": speed, "ttft_ms": [10.0, 20.0, 30.0], "gap_ms": [5.0]}
        for count, speed in zip((1, 2), speeds, strict=True)
    ]


def test_the_rows_are_medians_over_rounds_and_ratios_of_one_run() -> None:
    own = serving.rows_of(OWN, [rows(10, 20), rows(30, 40), rows(20, 30)])
    assert [(row.sessions, row.tokens_per_s, row.ttft_p50_ms, row.ttft_p95_ms) for row in own] == [
        (1, 20, 20.0, 30.0),
        (2, 30, 20.0, 30.0),
    ]
    peer = serving.rows_of("peer", [rows(10, 60)])
    lines = serving.table([*own, *peer]).splitlines()
    assert [line.split(" | ")[3] for line in lines[2:]] == ["1.00x", "2.00x", "1.00x", "0.50x"]
    assert serving.plot([*own, *peer]).startswith("<svg")


def test_a_peer_that_cannot_run_is_named_and_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worker(module: str, *_: object, **__: object) -> dict[str, object]:
        if "llama" in module:
            raise ProcessFailed("no compiler")
        return {"rows": rows(10, 20)}

    monkeypatch.setattr(serving, "run_worker", worker)
    monkeypatch.setattr(Workshop, "made", lambda *_: Made(tmp_path, 1))
    monkeypatch.setattr(Workshop, "interpreter", lambda *_: tmp_path)
    options = serving.Options(TINY, (1, 2), 1, 2, {})
    subjects = (edgec(TINY, OWN), llama(TINY, "llama.cpp", "equal"))
    measured, failed = serving.measure(Workshop(tmp_path, "x"), options, subjects, lambda _: None)
    assert failed == {"llama.cpp": "no compiler"}
    assert {row.subject for row in measured} == {OWN, serving.THROUGH_SERVER}


@pytest.mark.slow
def test_edgec_is_measured_by_calls_and_by_the_threads_of_its_server(prefix_bundle: Path) -> None:
    load = {"sessions": 3, "prompt_tokens": 20, "steps": 4, "arrivals": 2, "chunk": 8}
    by_calls = measure(EdgecSequences(prefix_bundle, 1, 4), Load(**load))
    (by_threads,) = edgec_slots.work({"artifact": str(prefix_bundle), "threads": 1, "loads": [load]})
    for made in (by_calls, by_threads):
        assert made.tokens_per_s > 0 and len(made.ttft_ms) == 2 and min(made.ttft_ms) > 0 and made.gap_ms
