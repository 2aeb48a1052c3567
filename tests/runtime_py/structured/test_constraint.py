"""The end of a text: stop tokens only where it is whole, closed before its tokens run out, no special token inside."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.structured.constraint import Constraint
from edgec.runtime_py.structured.structures import Structures
from edgec.runtime_py.structured.wanted import wanted
from tests.runtime_py.structured.steppers import (
    RandomStepper,
    example_tokenizer,
    structures,
    tokenizer_of,
    written,
)

OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a", "b"],
}


def begun(made: Structures, budget: int = 1000, **asked: object) -> Constraint:
    one = wanted(**asked)
    assert one is not None
    return made.compiled(one).begin(budget)


def allowed(rule: Constraint) -> set[int]:
    size = len(structures().vocabulary.tokens)
    return set(np.flatnonzero(np.isfinite(rule.mask(np.zeros(size, dtype=np.float32)))).tolist())


@pytest.mark.long
def test_stop_tokens_come_only_where_the_text_is_whole() -> None:
    made = structures()
    rule, eos = begun(made, regex="a{2,3}"), next(iter(made.vocabulary.eos))
    letter = made.vocabulary.ids[b"a"]
    seen = []
    for _ in range(3):
        seen.append(eos in allowed(rule))
        assert rule.take(letter) == letter
    assert seen == [False, False, True] and rule.ended(3) and rule.is_whole(2) and not rule.is_whole(1)


def test_special_tokens_and_ids_beyond_the_vocabulary_never_come() -> None:
    made = structures()
    rule = begun(made, regex="(?s:.)*")
    size = len(made.vocabulary.tokens)
    kept = np.flatnonzero(np.isfinite(rule.mask(np.zeros(size + 40, dtype=np.float32))))
    assert kept.max() < size and not set(kept.tolist()) & (made.vocabulary.special - made.vocabulary.eos)
    assert made.vocabulary.eos <= set(kept.tolist()), "the empty text matches"


@pytest.mark.long
@pytest.mark.parametrize("name", ["example", "fallback"])
def test_no_special_token_stands_inside_a_text(name: str) -> None:
    made = structures(name)
    for seed in range(10):
        out = written(made, 80, Sampling(1.5, seed=seed), seed=seed, schema=OBJECT)
        inner = out.tokens[:-1] if out.finish_reason == "eos" else out.tokens
        assert not set(inner) & made.vocabulary.special
        whole = b"".join(made.vocabulary.tokens[token] for token in inner)
        assert whole.decode() == out.text == tokenizer_of(made).decode(inner, skip_special_tokens=True)


@pytest.mark.parametrize("most", range(12, 60, 4))
def test_a_text_closes_within_any_budget_that_suffices(most: int) -> None:
    for seed in range(4):
        out = written(structures(), most, Sampling(1.0, seed=seed), seed=seed, schema=OBJECT)
        assert len(out.tokens) <= most
        shortest = structures().vocabulary.spelled(b'{"a":"","b":[]}')
        if most > len(shortest) + 2:
            assert out.finish_reason in ("complete", "eos"), out.text
            assert set(json.loads(out.text)) >= {"a", "b"}


def test_the_context_closes_a_text_as_well() -> None:
    stepper = RandomStepper(len(example_tokenizer()), 3, context=40)
    out = written(structures(), None, Sampling(1.0, seed=1), stepper=stepper, schema=OBJECT)
    assert out.finish_reason in ("complete", "eos") and out.value == json.loads(out.text)


def test_a_budget_that_is_too_small_gives_no_value() -> None:
    out = written(structures(), 3, schema=OBJECT)
    assert out.finish_reason == "length" and out.value is None and len(out.tokens) == 3


@pytest.mark.parametrize("pattern", ["a[0-9]", "@x", r"\d{4}-\d{2}", "^[^@]+@[a-z]+\\.org$"])
def test_strings_whose_pattern_hides_its_end_are_closed_too(pattern: str) -> None:
    schema = {"type": "object", "properties": {"p": {"type": "string", "pattern": pattern}}, "required": ["p"]}
    out = written(structures(), 100, Sampling(1.0, seed=2), schema=schema)
    assert out.finish_reason == "complete", out.text


@pytest.mark.long
def test_a_model_without_stop_tokens_ends_with_the_text() -> None:
    made = structures("example", False)
    assert not made.vocabulary.eos
    out = written(made, 60, Sampling(1.0, seed=2), schema=OBJECT)
    assert out.finish_reason == "complete" and out.value == json.loads(out.text)
    assert written(made, 60, regex="a{1,5}").text == "a"


def test_greedy_takes_the_best_allowed_token_and_options_act_behind_the_mask() -> None:
    made = structures()
    ids = made.vocabulary.ids
    logits = np.zeros(len(made.vocabulary.tokens), dtype=np.float32)
    logits[ids[b"z"]], logits[ids[b"a"]], logits[ids[b"b"]] = 9, 3, 2.9
    assert Sampler(Sampling(), begun(made, regex="[abc]"))(logits, ()) == ids[b"a"]
    # top-k keeps the best of what is allowed, not of all; the penalty moves what is allowed.
    assert Sampler(Sampling(1.0, top_k=1, seed=1), begun(made, regex="[abc]"))(logits, ()) == ids[b"a"]
    penalised = Sampler(Sampling(repetition_penalty=2.0), begun(made, regex="[abc]"))
    assert penalised(logits, [ids[b"a"]]) == ids[b"b"]
    assert logits[ids[b"z"]] == 9, "the model's own logits stay as they are"


def test_a_draft_is_cut_where_it_leaves_the_grammar() -> None:
    made = structures()
    rule, eos = begun(made, regex="ab?"), next(iter(made.vocabulary.eos))
    a, b = made.vocabulary.ids[b"a"], made.vocabulary.ids[b"b"]
    assert [rule.count_fitting(draft) for draft in ([a, b], [b], [a, a], [a, eos], [eos], [a, b, eos, b])] == [
        2,
        0,
        1,
        2,
        0,
        3,
    ]
    copy = rule.fork()
    copy.take(a)
    assert rule.count_fitting([a, b]) == 2 and copy.count_fitting([b]) == 1
