"""What a worker measures, with an engine that only takes notes."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import pytest

from benchmarks.harness.cases import FORWARD_WIDTHS, FULL, QUICK, SHORT, Case, longest
from benchmarks.harness.jobs import Feeder, measure_contexts, measure_memory, measure_speed, read_logits


class Notes:
    """An engine that writes down (start, tokens, rows) and refuses gaps."""

    vocab_size = 50

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []
        self.end = 0

    def feed(self, tokens: Sequence[int], start: int, rows: int) -> None:
        assert start <= self.end, f"a gap before {start}"
        assert all(0 <= token < self.vocab_size for token in tokens)
        self.calls.append((start, len(tokens), rows))
        self.end = start + len(tokens)

    def logits(self) -> list[list[float]]:
        return [[float(self.end)]]


@pytest.mark.parametrize("cases", [FULL, SHORT, QUICK])
def test_every_case_runs_behind_a_filled_context(cases: tuple[Case, ...]) -> None:
    engine = Notes()
    job = {"cases": [case.to_json() for case in cases]}
    samples = measure_speed(job, lambda _: engine)["samples"]
    assert [s["case"] for s in samples[:2]] == ["load", "first token"]
    for case in cases:
        assert sum(s["case"] == case.name for s in samples) == case.repeats
        calls = engine.calls.count((case.context, case.tokens, case.rows))
        assert calls >= case.warmups + case.repeats
    assert max(start + count for start, count, _ in engine.calls) == longest(cases) <= 1024


def test_an_engine_that_gives_one_row_is_not_asked_for_several() -> None:
    engine = Notes()
    job = {"cases": [case.to_json() for case in FULL], "most_rows": 1}
    samples = measure_speed(job, lambda _: engine)["samples"]
    assert {rows for _, _, rows in engine.calls} == {1}
    assert {s["case"] for s in samples} == {"load", "first token", *(case.name for case in FULL if case.rows == 1)}


def test_the_cases_are_those_of_the_goals() -> None:
    names = {case.name for case in FULL}
    assert {"prefill 128", "prefill 512", "decode at 128", "decode at 960"} <= names
    assert {f"forward {k}" for k in (1, 2, 4, 8, 16)} <= names
    assert {case.name for case in SHORT} == names
    assert {case.tokens for case in FULL if case.name.startswith("last row")} == {4, 8, 16}
    assert all(case.rows == case.tokens for case in FULL if case.name.startswith("forward"))
    assert FORWARD_WIDTHS == (1, 2, 4, 8, 16)


def test_decoding_goes_on_behind_itself() -> None:
    engine = Notes()
    feeder = Feeder(engine)
    samples = list(feeder.samples(Case("decode", 10, 1, steps=3, warmups=0, repeats=2)))
    assert len(samples) == 2
    assert [start for start, count, _ in engine.calls if count == 1] == [10, 11, 12, 10, 11, 12]
    assert all(s.wall_s > 0 and s.cpu_s >= 0 for s in samples)


def test_a_cache_that_is_copied_is_cut_before_the_clock_runs() -> None:
    class Copying(Notes):
        def __init__(self) -> None:
            super().__init__()
            self.kept: list[int] = []

        def rewind(self, positions: int) -> None:
            assert len(self.calls) % 3 == 0, "between two calls of one repetition"
            self.kept.append(positions)

    engine = Copying()
    feeder = Feeder(engine)
    list(feeder.samples(Case("decode", 0, 1, steps=3, warmups=1, repeats=2)))
    assert engine.kept == [0, 0, 0]


def test_contexts_are_reached_without_rewinding() -> None:
    engine = Notes()
    result = measure_contexts({"contexts": [16, 32, 64], "steps": 4}, lambda _: engine)
    assert (len(result["prefill"]), len(result["decode"])) == (3, 3)
    # Warm-up and each pass begin at 0; in between positions only grow.
    passes = [i for i, call in enumerate(engine.calls) if call[0] == 0]
    assert len(passes) == 3
    for begin, end in zip(passes, [*passes[1:], len(engine.calls)], strict=True):
        ends = [start + count for start, count, _ in engine.calls[begin:end]]
        assert [start for start, _, _ in engine.calls[begin:end]] == [0, *ends[:-1]]
    assert engine.end == 64


def test_memory_tells_the_peak_of_this_process() -> None:
    kept: list[mmap.mmap] = []

    def open_engine(_job: object) -> Notes:
        # Pages of the kernel's own: malloc may give memory that earlier tests left resident.
        kept.append(mmap.mmap(-1, 40_000_000))
        kept[0].write(bytes(40_000_000))
        return Notes()

    result = measure_memory({"prompt_tokens": 8, "new_tokens": 2}, open_engine)
    assert result["peak_bytes"] >= result["idle_bytes"] + 30_000_000
    assert "measured" in result["obtained"]


def test_logits_are_those_of_one_call() -> None:
    engine = Notes()
    assert read_logits({"tokens": [1, 2, 3], "rows": 2}, lambda _: engine) == {"logits": [[3.0]]}
    assert engine.calls == [(0, 3, 2)]
    read_logits({"tokens": [1, 2, 3], "rows": 1, "again": 2}, lambda _: engine)
    assert engine.calls[1:] == [(0, 3, 1), (2, 1, 1)]
