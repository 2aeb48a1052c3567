"""How a sentence encoder reads its text, and what goes before it: each argument is read, or refused by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers import normalizers

from edgec.errors import InputError
from edgec.exporter.sources.encoders.sentence_settings import read_settings, with_unpooled
from tests.exporter.tiny_sentence_encoder import tokenizer, write

SETTINGS, PROMPTS = "sentence_bert_config.json", "config_sentence_transformers.json"


def _refused(folder: Path) -> InputError:
    with pytest.raises(InputError) as raised:
        read_settings(folder)
    assert raised.value.code == "E641"
    return raised.value


def test_nothing_is_stated_by_an_empty_folder(tmp_path: Path) -> None:
    settings = read_settings(tmp_path)
    assert (settings.most_tokens, settings.prompts, settings.files) == (None, None, ())


@pytest.mark.parametrize(
    ("told", "tokenizers_own", "most"),
    [
        ({"max_seq_length": 256}, 512, 256),
        ({"max_seq_length": None}, 512, 512),
        ({"processor_kwargs": {"model_max_length": 64}}, 512, 64),
        ({"tokenizer_args": {"model_max_length": 64}}, None, 64),
        ({}, 10**30, None),
        ({"max_seq_length": True}, "many", None),
    ],
)
def test_the_length_is_that_of_the_first_place_that_states_it(
    tmp_path: Path, told: dict[str, Any], tokenizers_own: object, most: int | None
) -> None:
    write(tmp_path / SETTINGS, told)
    write(tmp_path / "tokenizer_config.json", {"model_max_length": tokenizers_own})
    assert read_settings(tmp_path).most_tokens == most


def test_what_newer_libraries_write_is_taken(tmp_path: Path) -> None:
    text = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
    told = {"transformer_task": "feature-extraction", "modality_config": text, "module_output_name": "token_embeddings"}
    older = {"max_seq_length": 99, "do_lower_case": False, "model_args": {"dtype": "auto", "trust_remote_code": True}}
    write(tmp_path / "sentence_roberta_config.json", {**told, **older, "unpad_inputs": True, "config_args": {}})
    assert read_settings(tmp_path).most_tokens == 99


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({"transformer_task": "fill-mask"}, "transformer_task"),
        ({"modality_config": {"message": {"method": "forward"}}}, "modality_config"),
        ({"module_output_name": "sentence_embedding"}, "module_output_name"),
        ({"processing_kwargs": {"text": {"max_length": 9}}}, "processing_kwargs"),
        ({"query_length": 32}, "query_length"),
        ({"query_expansion": {"length": 32}}, "query_expansion"),
        ({"model_args": {"rope_scaling": {}}}, "model_args.rope_scaling"),
        ({"config_kwargs": {"is_decoder": False}}, "config_kwargs.is_decoder"),
        ({"tokenizer_args": {"add_prefix_space": True}}, "tokenizer_args.add_prefix_space"),
        ({"tokenizer_args": "fast"}, "tokenizer_args"),
        ({"tokenizer_name_or_path": "other/tokenizer"}, "tokenizer_name_or_path"),
        ({"something_new": 1}, "something_new"),
    ],
)
def test_arguments_that_are_not_applied_are_refused_by_name(tmp_path: Path, told: dict[str, Any], named: str) -> None:
    write(tmp_path / SETTINGS, told)
    error = _refused(tmp_path)
    assert named in error.why and error.where.endswith(SETTINGS)


def test_small_letters_are_taken_where_the_tokenizer_makes_them(tmp_path: Path) -> None:
    write(tmp_path / SETTINGS, {"do_lower_case": True})
    for normalizer, lowers in (
        (None, False),
        (normalizers.BertNormalizer(lowercase=False), False),
        (normalizers.BertNormalizer(lowercase=True), True),
        (normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]), True),
    ):
        made = tokenizer()
        if normalizer is not None:
            made.backend_tokenizer.normalizer = normalizer
        made.save_pretrained(tmp_path)
        # What the config says does not count: a plain tokenizer ignores it.
        if lowers:
            assert read_settings(tmp_path).files == (tmp_path / SETTINGS,)
        else:
            assert "small letters" in _refused(tmp_path).why


def test_prompts_are_read_with_the_usual_names(tmp_path: Path) -> None:
    write(tmp_path / PROMPTS, {"prompts": {"query": "q: ", "sts": None}, "default_prompt_name": "query", "x": 1})
    prompts = read_settings(tmp_path).prompts
    assert prompts is not None and prompts.default_prompt == "query"
    assert prompts.prompts == {"query": "q: ", "document": "", "sts": ""}


def test_empty_prompts_are_none(tmp_path: Path) -> None:
    for told in ({}, {"prompts": {"query": "", "a": ""}}, {"prompts": {}, "default_prompt_name": "document"}):
        write(tmp_path / PROMPTS, told)
        settings = read_settings(tmp_path)
        assert settings.prompts is None and settings.files == (tmp_path / PROMPTS,)


@pytest.mark.parametrize(
    "told",
    [
        [],
        {"prompts": ["a"]},
        {"prompts": {"a": 3}},
        {"prompts": {"": "a"}},
        {"prompts": {"a": "x" * 20_000}},
        {"prompts": {str(n): "a" for n in range(300)}},
        {"prompts": {"a": "b"}, "default_prompt_name": "query2"},
        {"default_prompt_name": 7},
        {"model_type": "SparseEncoder"},
        {"model_type": "CrossEncoder", "prompts": {}},
    ],
)
def test_prompts_that_make_no_sense_are_refused(tmp_path: Path, told: object) -> None:
    write(tmp_path / PROMPTS, told)
    assert _refused(tmp_path).where.endswith(PROMPTS)


def test_tokens_of_prompts_are_counted_without_the_closing_one(tmp_path: Path) -> None:
    tokenizer().save_pretrained(tmp_path)
    write(tmp_path / PROMPTS, {"prompts": {"query": "the red ", "sts": "a"}})
    prompts = read_settings(tmp_path).prompts
    assert prompts is not None
    assert with_unpooled(prompts, tmp_path, 48, trust_remote_code=False).unpooled == {"query": 3, "sts": 2}
    with pytest.raises(InputError, match="query") as raised:
        with_unpooled(prompts, tmp_path, 3, trust_remote_code=False)
    assert raised.value.code == "E641"
