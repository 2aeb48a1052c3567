"""What the benchmark of sessions makes of its measurements: drafts over prompts, caches over positions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

from benchmarks.real_sessions import prompts_of, rows_by_position, summary, with_cache
from benchmarks.speculation import Lap


def test_prompts_are_read_from_both_files_and_spread_over_them(tmp_path: Path) -> None:
    questions, problems = tmp_path / "questions.jsonl", tmp_path / "problems.jsonl.gz"
    questions.write_text("\n".join(json.dumps({"turns": [f"first {n}", "second"]}) for n in range(6)) + "\n")
    problems.write_bytes(gzip.compress(json.dumps({"prompt": "def f():"}).encode()))
    assert prompts_of(questions, None) == [f"first {n}" for n in range(6)]
    assert prompts_of(questions, 3) == ["first 0", "first 2", "first 4"]
    assert prompts_of(problems, None) == ["def f():"]


def test_a_row_tells_speeds_per_token_and_another_text() -> None:
    slow, fast = Lap((1, 2, 3), 30.0, 30.0, 1.0, None), Lap((1, 2, 3), 20.0, 20.0, 1.5, 0.5)
    row = summary([(slow, fast), (slow, slow)])
    assert (row.prompts, row.drafted, row.acceptance, row.tokens_per_call) == (2, 1, 0.5, 1.25)
    assert row.ratio == (1.25, 1.0, 1.5) and row.same
    assert not summary([(slow, Lap((1, 2, 4), 20.0, 20.0, 1.0, None))]).same


def test_the_cost_of_a_cache_is_told_by_position() -> None:
    exact = np.log(np.full((600, 2), 0.5))
    likely = exact.copy()
    likely[128:] = np.log([0.25, 0.75])
    first, second, third = rows_by_position("int4", 12.0, exact, likely)
    assert [row.positions for row in (first, second, third)] == [(0, 127), (128, 511), (512, 599)]
    assert first.kl[0] == 0 and np.isclose(third.kl[0], 0.5 * np.log(4 / 3)) and first.same_top1 == 1.0
    assert third.same_top1 == 0.0


def test_a_recipe_gets_another_cache_with_edgecs_kernels_too() -> None:
    recipe = with_cache("8bit", "int4")
    assert {recipe.kv_dtype, *(own.kv_dtype for own in recipe.on.values())} == {"int4"}
