"""A real bundle of random weights: generate, stream, chat, sessions and speculation, each held to a schema."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

import edgec
from edgec.errors import InputError
from edgec.runtime_py.console.result import as_json
from edgec.runtime_py.model import Model

PROMPT = "Once upon a time"


class Ball(BaseModel):
    colour: str = Field(max_length=6)
    size: int = Field(ge=1, le=9)


SCHEMA = Ball.model_json_schema() | {"additionalProperties": False}


@pytest.fixture(scope="module")
def model(tiny_bundle: Path) -> Model:
    return edgec.load(tiny_bundle)


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 4}])
def test_generate_gives_text_and_value(model: Model, options: dict[str, Any]) -> None:
    out = model.generate(PROMPT, schema=SCHEMA, max_new_tokens=60, **options)
    assert out.finish_reason in ("complete", "eos") and out.value == json.loads(out.text)
    assert Ball.model_validate(out.value)
    ball = model.generate(PROMPT, schema=Ball, max_new_tokens=60, **options).value
    assert isinstance(ball, Ball)
    assert isinstance(model.generate(PROMPT, json=True, max_new_tokens=40, **options).value, dict)
    assert (
        model.generate(PROMPT, regex="[ab]{3}", max_new_tokens=40, **options).value
        in model.generate(PROMPT, regex="[ab]{3}", max_new_tokens=40, **options).text
    )


@pytest.mark.parametrize("template", [False, True])
@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 4}])
def test_speculation_changes_nothing(model: Model, tiny_bundle: Path, template: bool, options: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"schema": SCHEMA, "max_new_tokens": 50, "template": template, **options}
    plain = model.generate(PROMPT, **asked)
    for how in ("ngram", tiny_bundle):
        ahead = model.generate(PROMPT, speculate=how, **asked)
        assert (ahead.tokens, ahead.value) == (plain.tokens, plain.value) and ahead.speculation is not None


def test_a_stream_gives_the_same(model: Model) -> None:
    whole = model.generate(PROMPT, schema=SCHEMA, max_new_tokens=60)
    made = model.stream(PROMPT, schema=SCHEMA, max_new_tokens=60)
    assert "".join(made) == whole.text and made.result is not None and made.result.value == whole.value
    awaited = asyncio.run(model.generate_async(PROMPT, schema=SCHEMA, max_new_tokens=60))
    assert awaited.value == whole.value
    assert tuple(model.tokens(PROMPT, schema=SCHEMA, max_new_tokens=60)) == whole.tokens


def test_a_conversation_and_a_saved_session(model: Model, tmp_path: Path) -> None:
    chat = model.chat(speculate="ngram")
    first = chat.say("A ball?", model.request(schema=SCHEMA, max_new_tokens=30))
    assert first.generation.value == json.loads(first.text)
    model.save_session(tmp_path / "talk.session", chat.messages)
    again = model.chat()
    again.messages = model.load_session(tmp_path / "talk.session")
    second = again.say("Go", model.request(regex="yes|no", max_new_tokens=5))
    assert second.text in ("yes", "no") and second.generation.cached_tokens > 0
    other = model.new_session()
    assert other.generate(PROMPT, regex="(ha){2}").value == "haha"


def test_free_text_has_no_value(model: Model) -> None:
    out = model.generate(PROMPT, max_new_tokens=5)
    assert out.value is None and "value" not in as_json(out, 1.0, False)
    held = model.generate(PROMPT, regex="a", max_new_tokens=5)
    assert as_json(held, 1.0, False)["value"] == "a"


def test_refusals_come_before_anything_is_computed(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def computed(*_: Any) -> None:
        raise AssertionError("computed")

    monkeypatch.setattr(model.session, "forward", computed)
    for asked, code in (
        ({"schema": {"not": {}}}, "E613"),
        ({"regex": "("}, "E616"),
        ({"json": True, "regex": "a"}, "E610"),
    ):
        with pytest.raises(InputError, match=code):
            model.generate(PROMPT, **asked)
        with pytest.raises(InputError, match=code):
            model.stream(PROMPT, **asked)
    with pytest.raises(InputError, match="E610"):
        model.generate(PROMPT, json=True, stop="a")


def test_an_encoder_decoder_is_refused(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = model.bundle.manifest.model_copy(update={"encoder_decoder": object()})
    monkeypatch.setattr(model, "bundle", replace(model.bundle, manifest=manifest))
    with pytest.raises(InputError, match="E617"):
        model.request(json=True)
