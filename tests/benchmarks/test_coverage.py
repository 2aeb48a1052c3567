"""The table of models says what the outcomes hold; a sample of model types is exported and says the same text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.coverage import read_outcomes, run
from benchmarks.coverage_parts.check import COLUMNS, Outcome, check
from benchmarks.coverage_parts.spoken import Reference, compared, judged
from benchmarks.coverage_parts.table import page
from benchmarks.coverage_parts.tiny import causal_types, tiny_config

SAMPLE = (
    *("gpt2", "roberta", "bart", "gpt_neox", "falcon", "gptj", "openai-gpt"),
    # One's activation is GELU by tanh, in float; the other's config ties lm_head for its text part.
    *("olmoe", "gpt_oss", "deepseek_v3", "gemma4_text", "got_ocr2", "gemma3n"),
)


def outcome(kind: str, result: str, code: str = "", reason: str = "", column: str = "host") -> Outcome:
    return Outcome(kind=kind, column=column, result=result, code=code, reason=reason)


def test_the_page_counts_every_type_once_and_names_those_not_run() -> None:
    known = [outcome("a", "equal"), outcome("b", "refused", "E526", "a | scan"), outcome("d", "failed", "", "Error: x")]
    text = page(["a", "b", "c", "d"], {(o.kind, o.column): o for o in known})
    assert "| equal | 1 |" in text and "| refused | 1 |" in text and "| failed | 1 |" in text
    assert "| not run | 1 |" in text and "## Not run\n\n`c`" in text
    assert "| `b` | E526 | a / scan |" in text, "a reason cannot add a column"


def test_other_targets_have_a_column_each_and_their_own_counts() -> None:
    known = [
        *(outcome("a", "equal"), outcome("b", "equal")),
        *(outcome("a", "equal", column="iphone pte"), outcome("a", "passed", column="snapdragon")),
        outcome("b", "refused", "E528", column="iphone pte"),
    ]
    text = page(["a", "b", "c"], {(o.kind, o.column): o for o in known})
    assert "| `a` |  |  | equal |  | passed |" in text and "| `b` |  |  | refused E528 |  |  |" in text
    assert "| all that were run | 0 of 0 | 0 of 0 | 1 of 2 | 0 of 0 | 1 of 1 |" in text
    assert "| equal | 2 |" in text, "the counts at the top are of host alone"


def test_other_forms_for_this_machine_are_counted_and_what_is_not_plainly_equal_is_named() -> None:
    known = [
        *(outcome("a", "equal", column="host 4bit"), outcome("b", "refused", "E526", "scan", column="host 4bit")),
        outcome("c", "equal", reason="save for 1 of 24 tokens", column="host 4bit"),
    ]
    text = page(["a", "b", "c"], {(o.kind, o.column): o for o in known})
    assert "Of 3 types: 2 equal, 1 refused." in text and "Phones" not in text
    assert "| `b` | refused E526 | scan |\n| `c` | equal | save for 1 of 24 tokens |" in text
    more = page(["a", "b", "c", "d"], {(o.kind, o.column): o for o in known})
    assert "Of 3 types that were run, of 4: 2 equal, 1 refused." in more


@pytest.mark.parametrize(
    ("said", "result", "reason"),
    [
        ([1, 2, 0], "equal", ""),
        ([1, 3, 0], "equal", "save for 1 of 3 tokens, which tie with the best (at most 1e-06 apart)"),
        ([4, 2, 0], "different", "from token 0 on, 1e+00 of the largest behind the best; of 3, 1 are others"),
        ([1, 3, 4], "different", "from token 1 on, 1e-06 of the largest behind the best; of 3, 2 are others"),
    ],
)
def test_every_token_that_is_not_the_best_must_tie_with_it(said: list[int], result: str, reason: str) -> None:
    logits = torch.zeros(3, 5)
    logits[0, 1], logits[1, 2], logits[1, 3], logits[2, 0] = 1, 1, 1 - 1e-6, 1
    reference = Reference([0], [1, 2, 0], [1, 2, 0], lambda text: logits)
    assert compared(said, reference, 1e-5) == (result, reason)


@pytest.mark.parametrize("rows", [slice(None), slice(1, 2)])
def test_logits_that_are_no_numbers_agree_with_nothing(rows: slice) -> None:
    logits = torch.zeros(3, 5)
    logits[rows] = torch.nan
    assert judged([0, 0, 0], logits, 1e-5)[0] == "different"


def test_outcomes_are_kept_one_by_one_and_the_last_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = iter(["failed", "equal", "refused"])
    monkeypatch.setattr("benchmarks.coverage.in_process", lambda work, limit_s: work())
    kept = tmp_path / "outcomes.json"
    for kinds in (["a"], ["a", "b"]):
        run(kinds, "host", lambda kind: outcome(kind, next(results)), kept)
    assert {key: o.result for key, o in read_outcomes(kept).items()} == {
        ("a", "host"): "equal",
        ("b", "host"): "refused",
    }


def test_a_tiny_config_has_the_sizes_of_the_table() -> None:
    assert len(causal_types()) > 150
    config = tiny_config("gpt2")
    assert (config.n_embd, config.n_layer, config.vocab_size) == (64, 2, 256)
    wider = tiny_config("gpt2", wider=True)
    assert (wider.n_embd, wider.n_head, wider.n_layer, wider.vocab_size) == (96, 6, 2, 256)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLE)
def test_a_sample_of_types_says_what_transformers_says(kind: str) -> None:
    found = check(kind)
    assert found.result == "equal", found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "gpt2", "mamba2", "qwen3_moe", "gemma3_text", "olmoe"])
def test_a_sample_of_types_in_4_bits_says_what_its_rounded_graph_says(kind: str) -> None:
    found = check(kind, COLUMNS["host 4bit"])
    assert found.result == "equal", found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "code"), [("musicgen", "E109"), ("gemma4_assistant", "E111"), ("blt", "E109")])
def test_types_that_transformers_cannot_make_or_run_are_refused_by_their_config(kind: str, code: str) -> None:
    outcome = check(kind)
    assert (outcome.result, outcome.code) == ("refused", code), outcome.reason
