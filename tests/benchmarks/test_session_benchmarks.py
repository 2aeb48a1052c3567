"""The session benchmarks on a tiny bundle: what they must find there whatever the speed."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgec
from benchmarks import prefix, several_sessions, speculation
from benchmarks.session_models import system_text
from edgec.bundle.prefix import read_system_prompt
from edgec.exporter.sources.tokenizer import load_tokenizer


@pytest.mark.slow
def test_the_prefix_is_measured_both_ways(prefix_bundle: Path) -> None:
    row = prefix.measure("tiny", edgec.load(prefix_bundle, threads=1), 1, repeats=2)
    assert row.same_token and row.prompt_tokens == row.prefix_tokens + prefix.QUESTION_TOKENS
    assert row.without.low_ms <= row.without.wall_ms <= row.without.high_ms
    assert row.restore_ms > 0 and row.restored.wall_ms > 0
    assert f"| tiny | 1 | {row.prefix_tokens} + 20 |" in prefix.table([row])


@pytest.mark.long
def test_two_sessions_are_measured_both_ways(prefix_bundle: Path) -> None:
    row = several_sessions.measure("tiny", edgec.load(prefix_bundle, threads=1), 1, new_tokens=6, repeats=2)
    assert row.same_tokens and row.sequential_tokens_per_s > 0 and row.interleaved_tokens_per_s > 0
    assert row.batching_gain[1] == 1.0 and set(row.forward_ms) == set(several_sessions.WIDTHS)
    assert several_sessions.table([row]).count("\n") == 2


def test_calls_of_several_tokens_are_measured(prefix_bundle: Path) -> None:
    session = edgec.load(prefix_bundle, threads=1).session
    costs = speculation.call_costs(session, list(range(1, 17)) * (session.limits.context // 16), turns=2)
    assert costs.sizes[0] == 1 and max(costs.sizes) <= session.limits.logit_rows
    assert len(costs.wall_ms) == len(costs.sizes) and min(costs.wall_ms) > 0
    assert 1.0 <= costs.ceiling <= costs.sizes[-1] * 2


def test_the_system_prompt_has_about_the_tokens_asked_for(tmp_path: Path) -> None:
    from benchmarks.session_models import EXAMPLE

    (tmp_path / "s.txt").write_text(system_text(400))
    prompt = read_system_prompt(tmp_path / "s.txt", load_tokenizer(EXAMPLE))
    assert prompt.form == "chat" and abs(len(prompt.tokens) - 400) <= 10
