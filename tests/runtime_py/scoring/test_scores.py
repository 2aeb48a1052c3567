"""Scores of given texts against transformers' own log-probabilities."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

import edgec
from edgec.errors import InputError
from edgec.runtime_py.decoding.forced_text import continuation_score

# The bundle is in float with a float16 KV cache, whose rounding moves a log-probability by up to about 1e-3.
TOLERANCE = 5e-3
PROMPT, ENDS = "Once upon a time", [" there was a little girl", " a", ", the king and his men"]


def test_scores_are_sums_of_log_probabilities(tiny_bundle: Path, tiny_folder: Path) -> None:
    model, reference = edgec.load(tiny_bundle), AutoModelForCausalLM.from_pretrained(tiny_folder).eval()
    scores = model.score(PROMPT, ENDS)
    for end, score in zip(ENDS, scores, strict=True):
        asked = model.encode(PROMPT)
        ids = model.tokenizer(end, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            rows = reference(torch.tensor([[*asked, *ids]])).logits[0].log_softmax(-1)[len(asked) - 1 : -1]
        wanted = rows[torch.arange(len(ids)), torch.tensor(ids)].sum().item()
        assert abs(score.logprob - wanted) < TOLERANCE * len(ids)
        assert (score.text, score.tokens) == (end, len(ids))
    assert [score.logprob for score in model.score(PROMPT, ENDS[::-1])] == [score.logprob for score in scores[::-1]]


def test_the_greedy_continuation_is_told(tiny_bundle: Path) -> None:
    model = edgec.load(tiny_bundle)
    prompt, said = model.encode(PROMPT), model.generate(PROMPT, max_new_tokens=5).tokens
    assert continuation_score(model.session, prompt, said)[1]
    assert not continuation_score(model.session, prompt, [*said[:-1], said[-1] ^ 1])[1]
    assert model.score(PROMPT, []) == []


@pytest.mark.parametrize(
    ("prompt", "ends", "code"), [(PROMPT, [""], "E151"), (PROMPT, [" a" * 5000], "E150"), ("\udc80", [" a"], "E152")]
)
def test_what_cannot_be_scored_is_refused(tiny_bundle: Path, prompt: str, ends: list[str], code: str) -> None:
    with pytest.raises(InputError) as error:
        edgec.load(tiny_bundle).score(prompt, ends)
    assert error.value.code == code
