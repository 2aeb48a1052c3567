"""The plan that the app gets from a tokenizer.json, and the refusals."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from edgec.apps.embed import tokenizer_plan, tokenizer_steps
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.tokenizer_plan import tokenizer_values
from edgec.errors import InputError
from tests.apps.android_bundles import CPU, EXAMPLE, android_bundle
from tests.apps.project_files import facts_of, in_android
from tests.apps.tokenizer_samples import SAMPLES, sample

PLAIN: dict[str, Any] = {
    "version": "1.0",
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": None,
    "post_processor": None,
    "decoder": None,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], "byte_fallback": False},
}


def _written(folder: Path, **fields: Any) -> Path:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**PLAIN, **fields}))
    return path


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_has_a_plan(name: str, tmp_path: Path) -> None:
    sample(name).save(str(tmp_path / "tokenizer.json"))
    plan = tokenizer_values(tmp_path / "tokenizer.json")
    assert plan["model"]["kind"] in ("BPE", "Unigram", "WordPiece", "WordLevel")
    assert json.loads(json.dumps(plan)) == plan == tokenizer_values(tmp_path / "tokenizer.json")


def test_the_steps_are_among_the_facts(tmp_path: Path) -> None:
    steps = facts_of(gradle_modules(android_bundle(tmp_path, CPU)))["tokenizer"]
    assert "ISOLATED" in str(steps["splitters"]) and {"kind": "CharactersAsBytes"} in steps["decoders"]
    ids = Tokenizer.from_file(str(EXAMPLE / "tokenizer.json")).encode("").ids
    assert steps["model"]["kind"] == "BPE" and steps["before"] == ids


def test_the_app_knows_every_step() -> None:
    known = set(re.findall(r'^ +"(\w+)" -> ', in_android("TokenizerSteps"), re.MULTILINE))
    written = set(re.findall(r'TokenizerStep\(\s*"(\w+)"', inspect.getsource(tokenizer_steps)))
    assert written | set(tokenizer_plan._MODELS) == known


def test_ids_around_a_text_are_found_with_any_vocabulary(tmp_path: Path) -> None:
    around = {"type": "BertProcessing", "sep": ["b", 1], "cls": ["a", 0]}
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "界": 2}, "merges": []}
    values = tokenizer_values(_written(tmp_path, model=model, post_processor=around))
    assert (values["before"], values["after"]) == ([0], [1])
    model = {"type": "BPE", "vocab": {"界": 0}, "merges": []}
    assert tokenizer_values(_written(tmp_path, model=model))["before"] == []


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "precompiled": ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "Precompiled"),
    "scripts": ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "UnicodeScripts"),
    "nested": (
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}]}},
        "the pre-tokenizer Whitespace",
    ),
    "ctc": ({"decoder": {"type": "CTC", "pad_token": "a", "word_delimiter_token": "b", "cleanup": True}}, "CTC"),
    "pattern": (
        {
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"Regex": r"\bword\b"},
                "behavior": "Isolated",
                "invert": False,
            }
        },
        "regular expression",
    ),
    "dropout": ({"model": {**PLAIN["model"], "dropout": 0.1}}, "dropout"),
    "order": (
        {"model": {"type": "BPE", "merges": ["a b"], "vocab": {"a": 0, "b": 1, "ab": 2}}},
        "before the vocabulary",
    ),
    "single word": (
        {
            "added_tokens": [
                {
                    "id": 3,
                    "content": "x",
                    "single_word": True,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": False,
                }
            ]
        },
        "single_word",
    ),
    "gaps": (
        {
            "added_tokens": [
                {
                    "id": 9,
                    "content": "x",
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": False,
                }
            ]
        },
        "leave gaps",
    ),
    "first": (
        {
            "normalizer": {"type": "Strip", "strip_left": True, "strip_right": False},
            "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
        },
        "first",
    ),
    "no tokens": ({"model": {"type": "BPE", "vocab": {}, "merges": []}}, "no text gives a token"),
    "no model": ({"model": None}, "library refuses"),
    "library": ({"normalizer": {"type": "Prepend", "prepend": 3}}, "library refuses"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_app_cannot_do_is_refused(name: str, tmp_path: Path) -> None:
    fields, why = REFUSED[name]
    with pytest.raises(InputError) as caught:
        tokenizer_values(_written(tmp_path, **fields))
    assert caught.value.code == "E470" and why in str(caught.value.why)


@pytest.mark.parametrize("text", ["{", "[]", "3", "null", '"x"', '{"model": {"type": "BPE"}}'])
def test_files_of_another_form_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(InputError) as caught:
        tokenizer_values(tmp_path / "tokenizer.json")
    assert caught.value.code in ("E463", "E470")
