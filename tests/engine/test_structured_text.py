"""Texts that the engine holds to compiled schemas: the masks of `edgec run`'s library, and every end valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from edgec.engine.compile.build import build_runner
from edgec.exporter.schemas.constrained_calls import constrained_calls
from edgec.runtime_py.messages.grammar import choose_tools
from edgec.runtime_py.messages.message_format import MessageFormat
from edgec.runtime_py.structured.structures import Structures
from edgec.runtime_py.structured.vocabulary import vocabulary_of
from edgec.runtime_py.structured.wanted import wanted, with_every_spelling
from tests.engine.structure_files import write_structure
from tests.engine.structure_library import ENDED, OPEN, Structure, StructureLibrary, StructureRefused
from tests.exporter.schemas.test_messages import ALL
from tests.runtime_py.generation.test_calls import AHEAD, CASES, FORMS, WRITTEN, marked
from tests.runtime_py.messages.talk import said
from tests.runtime_py.structured.steppers import structures

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer", "minimum": 3, "maximum": 9},
        "pet": {"enum": ["dog", "cat", "frog"]},
        "friends": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
        "born": {"type": "string", "format": "date"},
    },
    "required": ["name", "age", "pet"],
    "additionalProperties": False,
}
SCHEMAS: dict[str, Any] = {
    "an object": PERSON,
    "anything": True,
    "alternatives": {"anyOf": [{"type": "number", "minimum": -2.5}, {"type": "string", "pattern": "^(ab|c)+$"}]},
    "a list": {"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "boolean"}, "minItems": 2},
}
FAR = 10**6
ENDLESS = 2**31 - 1
STEPS, SEEDS = 40, 4


@pytest.fixture(scope="module")
def library(stage_cache: Path) -> StructureLibrary:
    return StructureLibrary(build_runner().library)


def opened(library: StructureLibrary, folder: Path, schema: Any, name: str) -> Structure:
    return library.structure(*write_structure(folder, schema, structures(name).vocabulary))


@pytest.mark.parametrize("name", ["example", "fallback"])
@pytest.mark.parametrize("key", SCHEMAS)
def test_masks_are_those_of_python(library: StructureLibrary, tmp_path: Path, key: str, name: str) -> None:
    made, schema = structures(name), SCHEMAS[key]
    plain = wanted(schema=schema)
    assert plain is not None
    asked = with_every_spelling(plain)
    own = opened(library, tmp_path, schema, name)
    for seed in range(SEEDS):
        chance, theirs = np.random.default_rng(seed), made.compiled(asked).begin(FAR)
        with own.begin(FAR) as text:
            for step in range(1, STEPS):
                logits = chance.standard_normal(len(made.vocabulary.tokens)).astype(np.float32)
                masked = text.mask(logits)
                np.testing.assert_array_equal(masked, theirs.mask(logits))
                token = int(masked.argmax())
                text.take(token)
                theirs.take(token)
                if token in made.vocabulary.eos or text.state == ENDED:
                    break
                assert theirs.is_whole(step) == (text.state != OPEN)


@pytest.mark.parametrize("name", ["example", "fallback"])
@pytest.mark.parametrize("key", SCHEMAS)
def test_every_text_that_ends_is_valid_within_its_budget(
    library: StructureLibrary, tmp_path: Path, key: str, name: str
) -> None:
    vocabulary, schema, ended = structures(name).vocabulary, SCHEMAS[key], 0
    own = opened(library, tmp_path, schema, name)
    for budget in (1, 2, 5, 15, 40, 41, 60, 100):
        chance, tokens = np.random.default_rng(budget), list[int]()
        with own.begin(budget) as text:
            while len(tokens) < budget and text.state != ENDED:
                tokens.append(int(text.mask(chance.standard_normal(len(vocabulary.tokens), np.float32)).argmax()))
                text.take(tokens[-1])
            whole = text.state != OPEN
        ended += whole
        if whole:
            said = b"".join(vocabulary.tokens[token] for token in tokens if token not in vocabulary.eos)
            judge = jsonschema.Draft202012Validator
            judge(schema, format_checker=judge.FORMAT_CHECKER).validate(json.loads(said))
        # The shortest object takes 31 bytes, each at most a token; the other schemas' shortest texts 11 and fewer.
        assert whole or budget < (40 if schema is PERSON else 15)
    assert ended >= 4


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize(("name", "special"), CASES)
def test_masks_of_messages_with_calls_are_those_of_python(
    library: StructureLibrary, tmp_path: Path, name: str, special: tuple[str, ...]
) -> None:
    tokenizer = marked(FORMS[name], special)
    vocabulary = vocabulary_of(tokenizer, len(tokenizer), frozenset([tokenizer.eos_token_id]))
    made = Structures(vocabulary)
    message_format = MessageFormat(tokenizer, lambda: made)
    held = constrained_calls(message_format, vocabulary, ALL)
    for file, content in held.files.items():
        (tmp_path / file).write_bytes(content)
    called = 0
    for asked, wished, parallel in (
        ("auto", "auto", True), ("once auto", "auto", False), ("required", "required", True), ("tool now", "now", True)
    ):  # fmt: skip
        theirs = message_format.compiled(choose_tools(ALL, wished, parallel)).begin(FAR, closes=False)
        text = AHEAD.get(name, "Hm") + WRITTEN[name]
        script = said(tokenizer, WRITTEN[name] if wished == "required" else text, eos=False)
        with library.structure(tmp_path / held.choices[asked], tmp_path / "vocabulary.bin").begin(ENDLESS) as own:
            chance = np.random.default_rng(len(asked))
            for step in range(1, len(script) + STEPS):
                logits = chance.standard_normal(len(vocabulary.tokens)).astype(np.float32)
                if script and wished != "now":
                    logits[script.pop(0)] += 99
                masked = own.mask(logits)
                np.testing.assert_array_equal(masked, theirs.mask(logits))
                token = int(masked.argmax())
                own.take(token)
                theirs.take(token)
                called += logits[token] > 50 and not script
                if token in vocabulary.eos or own.state == ENDED:
                    break
                assert theirs.is_whole(step) == (own.state != OPEN)
    assert called


def test_tokens_that_the_mask_excludes_are_refused(library: StructureLibrary, tmp_path: Path) -> None:
    vocabulary = structures().vocabulary
    own = opened(library, tmp_path, {"type": "integer"}, "example")
    with own.begin(5) as text:
        for token in (vocabulary.ids[b"a"], min(vocabulary.eos), len(vocabulary.tokens) + 5, -1):
            with pytest.raises(StructureRefused):
                text.take(token)
        text.take(vocabulary.ids[b"7"])
        text.take(min(vocabulary.eos))
        assert text.state == ENDED
        with pytest.raises(StructureRefused, match="ended"):
            text.take(vocabulary.ids[b"7"])
    with pytest.raises(StructureRefused, match="at least one token"):
        own.begin(0)


def test_files_that_are_cut_or_lie_are_refused(library: StructureLibrary, tmp_path: Path) -> None:
    grammar, listed = write_structure(tmp_path, {"type": "integer"}, structures().vocabulary)
    for path in (grammar, listed):
        intact = path.read_bytes()
        for damaged in (intact[:-1], intact + b"\0", b"", intact[:8] + b"\xff" * 4 + intact[12:], b"X" + intact[1:]):
            path.write_bytes(damaged)
            with pytest.raises(StructureRefused, match="damaged"):
                library.structure(grammar, listed)
        path.write_bytes(intact)
    with pytest.raises(StructureRefused, match="cannot be read"):
        library.structure(tmp_path / "absent", listed)
