"""The table of models says what the outcomes hold; a sample of model types is exported and says the same text."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.coverage import read_outcomes, run
from benchmarks.coverage_parts.check import Outcome, check
from benchmarks.coverage_parts.table import page
from benchmarks.coverage_parts.tiny import causal_types, tiny_config

SAMPLE = (
    *("gpt2", "roberta", "bart", "gpt_neox", "falcon", "gptj", "openai-gpt"),
    # One's activation is GELU by tanh, in float; the other's config ties lm_head for its text part.
    *("olmoe", "gpt_oss", "deepseek_v3", "gemma4_text", "got_ocr2"),
)


def outcome(kind: str, result: str, code: str = "", reason: str = "") -> Outcome:
    return Outcome(kind=kind, recipe="float", result=result, code=code, reason=reason)


def test_the_page_counts_every_type_once_and_names_those_not_run() -> None:
    known = [outcome("a", "equal"), outcome("b", "refused", "E526", "a | scan"), outcome("d", "failed", "", "Error: x")]
    text = page(["a", "b", "c", "d"], {(o.kind, o.recipe): o for o in known})
    assert "| equal | 1 |" in text and "| refused | 1 |" in text and "| failed | 1 |" in text
    assert "| not run | 1 |" in text and "## Not run\n\n`c`" in text
    assert "| `b` | E526 | a / scan |" in text, "a reason cannot add a column"


def test_outcomes_are_kept_one_by_one_and_the_last_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = iter(["failed", "equal", "refused"])
    monkeypatch.setattr("benchmarks.coverage.check", lambda kind, recipe: outcome(kind, next(results)))
    monkeypatch.setattr("benchmarks.coverage.in_process", lambda work, limit_s: work())
    kept = tmp_path / "outcomes.json"
    run(["a"], "float", kept)
    run(["a", "b"], "float", kept)
    assert {key: o.result for key, o in read_outcomes(kept).items()} == {
        ("a", "float"): "equal",
        ("b", "float"): "refused",
    }


def test_a_tiny_config_has_the_sizes_of_the_table() -> None:
    assert len(causal_types()) > 150
    config = tiny_config("gpt2")
    assert (config.n_embd, config.n_layer, config.vocab_size) == (64, 2, 256)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLE)
def test_a_sample_of_types_says_what_transformers_says(kind: str) -> None:
    found = check(kind, "float")
    assert found.result == "equal", found
