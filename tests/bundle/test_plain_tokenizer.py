"""The tokenizers library alone says what transformers says of the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from edgec.bundle.encoding import decode_tokens, token_ids
from edgec.bundle.golden_texts import TEXTS
from edgec.bundle.plain_tokenizer import NAMED, PlainTokenizer
from edgec.bundle.tokenizer_folder import open_tokenizer
from edgec.errors import InputError
from tests.runtime_py.tiny_decoder import tiny_tokenizer

TOOLS: tuple[list[dict[str, str]] | None, ...] = (None, [{}])
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


def with_marks() -> PreTrainedTokenizerFast:
    """Special tokens with a name and without one, and an added token of another kind."""
    made = tiny_tokenizer()
    made.add_special_tokens({"extra_special_tokens": ["<|more|>"], "pad_token": "<|pad|>"})
    made.add_tokens([AddedToken("<tool>", special=False)])
    made.chat_template = TEMPLATE
    return made


def words() -> PreTrainedTokenizerFast:
    """Whole words, without a template."""
    steps = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "the": 2, "cat": 3}, unk_token="[UNK]"))
    steps.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=steps, unk_token="[UNK]")


def several() -> PreTrainedTokenizerFast:
    made = tiny_tokenizer()
    made.chat_template = {"default": TEMPLATE, "tool_use": TEMPLATE + "{{ tools }}"}
    return made


KINDS = {"bytes": tiny_tokenizer, "marks": with_marks, "words": words, "several templates": several}


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    KINDS[request.param]().save_pretrained(tmp_path)
    return tmp_path


def told(tokenizer: Any) -> dict[str, Any]:
    """What edgec asks of a tokenizer."""
    template = tokenizer.chat_template
    return {
        **{name: getattr(tokenizer, name) for name in NAMED},
        **{f"{name}_id": getattr(tokenizer, f"{name}_id") for name in NAMED},
        "special": dict(tokenizer.special_tokens_map),
        "ids": set(tokenizer.all_special_ids),
        "added": {index: str(token.content) for index, token in tokenizer.added_tokens_decoder.items()},
        "vocabulary": tokenizer.get_vocab(),
        "count": len(tokenizer),
        "found": [tokenizer.convert_tokens_to_ids(text) for text in ("cat", "<tool>", "<|more|>", "nowhere")],
        "template": template,
        "chosen": [tokenizer.get_chat_template(tools=tools) for tools in TOOLS if template],
        "side": tokenizer.truncation_side,
        "texts": [(token_ids(tokenizer, text), token_ids(tokenizer, text, special=False)) for _, text in TEXTS],
        "written": [decode_tokens(tokenizer, range(len(tokenizer)), special=special) for special in (True, False)],
    }


def test_both_say_the_same(folder: Path) -> None:
    plain = open_tokenizer(folder, plain=True)
    assert isinstance(plain, PlainTokenizer)
    assert told(plain) == told(AutoTokenizer.from_pretrained(folder))


@pytest.mark.real_model
@pytest.mark.long
def test_of_a_real_model(real_model: Path, tmp_path: Path) -> None:
    from edgec.exporter.sources.resolve import resolve
    from edgec.exporter.sources.tokenizer import load_tokenizer

    folder = resolve(str(real_model)).path
    assert folder is not None
    load_tokenizer(folder).save_pretrained(tmp_path)
    assert told(open_tokenizer(tmp_path, plain=True)) == told(AutoTokenizer.from_pretrained(tmp_path))


def test_without_its_file_transformers_reads_the_folder(tmp_path: Path) -> None:
    tiny_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(InputError) as caught:
        open_tokenizer(tmp_path, plain=True)
    assert caught.value.code == "E158"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"model": {"type": "Nothing"}}'])
def test_a_damaged_file_is_a_typed_error(tmp_path: Path, text: str) -> None:
    tiny_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(InputError) as caught:
        open_tokenizer(tmp_path, plain=True)
    assert caught.value.code == "E158"


def test_special_tokens_may_be_objects(tmp_path: Path) -> None:
    tiny_tokenizer().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["eos_token"] = {"content": config["eos_token"], "lstrip": False, "__type": "AddedToken"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert open_tokenizer(tmp_path, plain=True).eos_token_id == tiny_tokenizer().eos_token_id
