"""What an app must know of a sentence encoder, read from its manifest and its tokenizer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed.encoder_facts import EncoderFacts, encoder_facts, is_encoder
from edgec.apps.embed.facts_json import encoder_values
from edgec.bundle.sentence_prompts import SentencePrompts
from edgec.errors import InputError
from tests.apps.encoder_bundles import WIDTH, encoder_method, placeholder_bundle
from tests.apps.ios_bundles import MODULE, decoder_manifest, module_manifest
from tests.exporter.tiny_sentence_encoder import POSITIONS


def test_facts_come_from_manifest_and_tokenizer(tmp_path: Path) -> None:
    varying = encoder_facts(placeholder_bundle(tmp_path / "a", "pte-cpu", encoder_method(padded=False)))
    assert varying == EncoderFacts(POSITIONS, False, 0, 1, 1, False, WIDTH)
    fixed = placeholder_bundle(
        tmp_path / "b", "mlpackage", encoder_method(True, "int32"), truncation_side="left", pad_token="[MASK]"
    )
    assert encoder_facts(fixed) == EncoderFacts(POSITIONS, True, 4, 1, 1, True, WIDTH)


def test_prompts_are_facts(tmp_path: Path) -> None:
    prompts = SentencePrompts(prompts={"a$": '"\\(x)"', "é": ""}, default_prompt="é", unpooled={"a$": 3})
    facts = encoder_facts(placeholder_bundle(tmp_path / "x", "pte-cpu", encoder_method(False), prompts=prompts))
    assert facts is not None and facts.prompts == prompts
    written = encoder_values(facts, 32)
    assert (written["prompts"], written["defaultPrompt"]) == (prompts.prompts, "é") and written["unpooled"] == {"a$": 3}
    none = encoder_values(EncoderFacts(POSITIONS, False, 0, 1, 1, False, WIDTH), 64)
    assert (none["unpooled"], none["defaultPrompt"]) == ({}, None)


def _changed(**fields: Any) -> bool:
    method = encoder_method(padded=False).model_copy(update=fields)
    return is_encoder(module_manifest("pte-cpu", [method]))


def test_other_models_are_not_taken_for_encoders() -> None:
    method = encoder_method(padded=False)
    assert _changed()
    first, output = method.inputs[0], method.outputs[0]
    assert not _changed(inputs=[first])
    assert not _changed(inputs=[first, method.inputs[1].model_copy(update={"dtype": "float32"})])
    assert not _changed(inputs=[first, method.inputs[1].model_copy(update={"shape": [1, 3]})])
    assert not _changed(outputs=[output, output])
    assert not _changed(outputs=[output.model_copy(update={"name": "last_hidden_state"})])
    assert not _changed(outputs=[output.model_copy(update={"shape": [1, "T"]})])
    assert not _changed(dynamic={})
    assert not is_encoder(module_manifest("pte-cpu", [method, method]))
    assert not is_encoder(module_manifest("pte-cpu", MODULE))
    assert not is_encoder(decoder_manifest("pte-cpu", methods=[method]))


def test_without_a_tokenizer_there_is_no_app(tmp_path: Path) -> None:
    bundle = placeholder_bundle(tmp_path / "bundle", "pte-cpu", encoder_method(padded=False))
    files = [file for file in bundle.manifest.files if not file.path.startswith("tokenizer/")]
    with pytest.raises(InputError) as caught:
        encoder_facts(replace(bundle, manifest=bundle.manifest.model_copy(update={"files": files})))
    assert caught.value.code == "E462"


def test_tokens_that_change_with_the_text_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(tokenizer: Any, text: str, special: bool = True) -> list[int]:
        return [len(text), 7] if special else [len(text) + 1]

    monkeypatch.setattr("edgec.apps.embed.encoder_facts.token_ids", odd)
    with pytest.raises(InputError) as caught:
        encoder_facts(placeholder_bundle(tmp_path / "bundle", "pte-cpu", encoder_method(padded=False)))
    assert caught.value.code == "E741"


def test_a_number_that_kotlin_cannot_hold_is_refused() -> None:
    facts = EncoderFacts(1 << 31, False, 0, 1, 1, False, 24)
    assert encoder_values(facts, 64)["mostTokens"] == 1 << 31
    with pytest.raises(InputError) as caught:
        encoder_values(facts, 32)
    assert caught.value.code == "E469"
