"""Small schemas at random, random logits: every ended text validates, and drafts change nothing."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgec.errors import InputError
from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.speculation.draft import Draft, DraftLimits
from edgec.runtime_py.speculation.draft_model import DraftModel
from edgec.runtime_py.speculation.prompt_lookup import PromptLookup
from edgec.runtime_py.speculation.speculator import Speculator
from tests.example_counts import examples
from tests.runtime_py.structured.steppers import PROMPT, RandomStepper, example_tokenizer, structures, written

NAMES = st.sampled_from(["a", "bc", "name", 'q"', "ä"])
SCALARS = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["null", "boolean", "integer", "number", "string"])}),
    st.fixed_dictionaries({"enum": st.lists(st.sampled_from(["x", "yes", 1, 2.5, None, True, [1]]), min_size=1)}),
    st.builds(
        lambda low, size: {"type": "integer", "minimum": low, "maximum": low + size},
        st.integers(-50, 900),
        st.integers(0, 99),
    ),
    st.builds(
        lambda low, size: {"type": "string", "minLength": low, "maxLength": low + size},
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    st.sampled_from([{"type": "string", "pattern": p} for p in ("^[A-Z]{2,4}$", "[0-9]-", "^(ab|c)+$", "x$")]),
    st.sampled_from([{"type": "string", "format": f} for f in ("date", "ipv4", "uuid", "date-time")]),
    st.sampled_from([True, {}, {"type": ["string", "null"]}, {"const": {"k": [1, "v"]}}]),
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(NAMES, inner, max_size=3)
    objects = st.builds(
        lambda parts, needed, more: {
            "type": "object",
            "properties": parts,
            "required": [name for name, must in zip(parts, needed, strict=False) if must],
            "additionalProperties": more,
        },
        properties,
        st.lists(st.booleans(), min_size=3, max_size=3),
        st.one_of(st.just(False), inner),
    )
    lists = st.builds(
        lambda items, first, low, more: {
            "type": "array",
            "items": items,
            "prefixItems": first,
            "minItems": low,
            "maxItems": low + more,
        },
        inner,
        st.lists(inner, min_size=1, max_size=2),
        st.integers(0, 3),
        st.integers(0, 2),
    )
    return st.one_of(objects, lists, st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3)))


SCHEMAS = st.recursive(SCALARS, nested, max_leaves=6)
SAMPLINGS = st.sampled_from(
    [
        Sampling(),
        Sampling(repetition_penalty=1.3),
        Sampling(temperature=1.0, seed=5),
        Sampling(temperature=1.5, top_k=3, top_p=0.9, min_p=0.1, repetition_penalty=1.2, seed=6),
    ]
)


def check(schema: Any, text: str) -> None:
    judge = jsonschema.Draft202012Validator
    judge(schema, format_checker=judge.FORMAT_CHECKER).validate(json.loads(text))


@pytest.mark.long
@settings(max_examples=examples(120), deadline=None)
@given(
    schema=SCHEMAS,
    seed=st.integers(0, 2**20),
    sampling=SAMPLINGS,
    most=st.integers(1, 90),
    name=st.sampled_from(["example", "fallback"]),
)
def test_every_ended_text_validates(schema: Any, seed: int, sampling: Sampling, most: int, name: str) -> None:
    try:
        out = written(structures(name), most, sampling, seed=seed, schema=schema)
    except InputError as error:
        assert error.code == "E615"
        assume(False)
    assert len(out.tokens) <= most
    if out.finish_reason == "length":
        assert out.value is None and len(out.tokens) == most
    else:
        assert out.finish_reason in ("complete", "eos")
        check(schema, out.text)
        assert out.value == json.loads(out.text)


class Oracle:
    """Guesses what another run wrote, with an error now and then; guesses reach beyond the end and the grammar."""

    name, free = "oracle", True

    def __init__(self, tokens: tuple[int, ...], wrong: int) -> None:
        self._tokens, self._wrong = tokens, wrong

    def begin(self, prompt: Any, sampling: Sampling) -> None:
        pass

    def propose(self, history: Any, count: int) -> Draft | None:
        known = (*self._tokens, *[9] * 20)[len(history) - len(PROMPT) :]
        guess = [
            token if (place + len(history)) % self._wrong else token + 1 for place, token in enumerate(known[:count])
        ]
        return Draft(tuple(guess)) if guess else None


def speculator(stepper: RandomStepper, *drafters: Any) -> Speculator:
    clock = iter(range(10**9))
    return Speculator(drafters, DraftLimits.of(stepper.limits), clock=lambda: float(next(clock)))


@pytest.mark.long
@settings(max_examples=examples(60), deadline=None)
@given(
    schema=SCHEMAS, seed=st.integers(0, 2**20), sampling=SAMPLINGS, most=st.integers(1, 90), wrong=st.integers(2, 12)
)
def test_text_is_the_same_with_drafts(schema: Any, seed: int, sampling: Sampling, most: int, wrong: int) -> None:
    try:
        plain = written(structures(), most, sampling, seed=seed, schema=schema)
    except InputError:
        assume(False)
    stepper = RandomStepper(len(example_tokenizer()), seed)
    small = DraftModel(RandomStepper(len(example_tokenizer()), seed), DraftLimits.of(stepper.limits))
    for drafters in ([PromptLookup(), Oracle(plain.tokens, wrong)], [small]):
        model = RandomStepper(len(example_tokenizer()), seed)
        got = written(
            structures(), most, sampling, speculate=speculator(model, *drafters), stepper=model, schema=schema
        )
        assert (got.tokens, got.text, got.finish_reason, got.value) == (
            *(plain.tokens, plain.text, plain.finish_reason, plain.value),
        )


@pytest.mark.long
def test_drafts_are_accepted_and_save_calls() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": 60}}, "required": ["a"]}
    plain = written(structures(), 80, seed=4, schema=schema)
    model = RandomStepper(len(example_tokenizer()), 4)
    got = written(structures(), 80, speculate=speculator(model, Oracle(plain.tokens, 99)), stepper=model, schema=schema)
    assert got.tokens == plain.tokens and got.speculation is not None
    assert got.speculation.accepted > 20 and model.calls < len(got.tokens)


@pytest.mark.long
@settings(max_examples=examples(30), deadline=None)
@given(schema=SCHEMAS, seed=st.integers(0, 2**20), most=st.integers(5, 90))
def test_drawn_drafts_keep_to_the_schema_too(schema: Any, seed: int, most: int) -> None:
    """Drawn without a seed: the text is another each time, and always valid where it ends."""
    stepper = RandomStepper(len(example_tokenizer()), seed)
    small = DraftModel(RandomStepper(len(example_tokenizer()), seed + 1), DraftLimits.of(stepper.limits))
    try:
        got = written(
            structures(), most, Sampling(1.0), speculate=speculator(stepper, small), stepper=stepper, schema=schema
        )
    except InputError as error:
        assert error.code == "E615"
        assume(False)
    if got.finish_reason != "length":
        check(schema, got.text)
