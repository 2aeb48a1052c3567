"""What two unequal cores give together, over the sum of what each gives alone."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import pytest

from benchmarks.unequal_cores import CASES, GOALS, WAYS, busy_process, measure, rows_of, table


class Counting:
    """An engine that counts its tokens."""

    vocab_size = 50

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []

    def feed(self, tokens: Sequence[int], start: int, rows: int) -> None:
        assert max(tokens) < self.vocab_size
        self.calls.append((len(tokens), start, rows))

    def logits(self) -> list[list[float]]:
        return []


def run(first: float, shared: float, both: float, idle: float) -> dict[str, dict[str, float]]:
    rates = dict(zip(WAYS, (first, shared, both, idle), strict=True))
    return {way: dict.fromkeys(CASES, rate) for way, rate in rates.items()}


def test_the_share_is_of_the_sum_of_both_cores() -> None:
    rows = rows_of("edgec", [run(100, 50, 120, 190), run(100, 50, 135, 190), run(100, 50, 150, 190)])
    assert [row.case for row in rows] == list(GOALS)
    assert all(row.of_the_sum == pytest.approx(0.9) for row in rows)
    assert "| edgec | decode | 100.0 | 50.0 | 135.0 | 190.0 | 90% | 85% |" in table(rows).splitlines()


def test_each_case_is_called_as_it_says() -> None:
    engine = Counting()
    rates = measure(lambda threads: engine, 2, 0.0)
    assert set(engine.calls) == {(512, 0, 1), *CASES.values()}
    assert set(rates) == set(CASES) and min(rates.values()) > 0


def test_the_busy_process_ends_with_its_use(monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[tuple[int, set[int]]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: placed.append((pid, cores)))
    with busy_process(1):
        assert json.dumps(placed[0][0]) and placed[0][1] == {1}
    with pytest.raises(ProcessLookupError):
        os.kill(placed[0][0], 0)
