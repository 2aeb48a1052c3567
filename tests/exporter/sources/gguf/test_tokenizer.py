"""Tokenizers from GGUF metadata: kinds, cutting, special tokens, beginnings and ends, templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgec.errors import InputError
from edgec.exporter.sources.gguf.file import GgufFile
from edgec.exporter.sources.gguf.folder import read_gguf_folder
from edgec.exporter.sources.gguf.split import SPLITS
from edgec.exporter.sources.gguf.tokenizer import write_tokenizer
from edgec.exporter.sources.gguf.vocabulary import read_vocabulary
from edgec.exporter.sources.tokenizer import load_tokenizer
from tests.exporter.sources.gguf_models import FAMILIES, finish, model_writer, tiny_model

_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_PIECES = ["\u2581", "a", "b", "c", "ab", "\u2581ab", "\u2581abc", "  "]
SPM: Mapping[str, Any] = {
    "model": "llama",
    "tokens": ["<unk>", "<s>", "</s>", *_BYTES, *_PIECES, "<|user|>"],
    "scores": [0.0] * 259 + [-9.0, -8.0, -7.0, -6.0, -1.0, -2.0, -3.0, 0.0, 0.0],
    "token_type": [2, 3, 3, *[6] * 256, *[1] * 7, 4, 3],
    **{"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
}


def _alphabet() -> list[str]:
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return list(bytes_to_unicode().values())


def _bpe(pre: str | None = "gpt-2", **more: Any) -> dict[str, Any]:
    """A vocabulary of all bytes and ``he``, ``hel``, ``12``, ``123``, with two special tokens and one of the user."""
    made = ["he", "hel", "12", "123", "\u0120a", "hello"]
    tokens = [*_alphabet(), *made, "<|end\uff5c>", "<|im_end|>", "<think>"]
    metadata = {
        "model": "gpt2",
        "tokens": tokens,
        "token_type": [*[1] * (256 + len(made)), 3, 3, 4],
        "merges": ["h e", "he l", "1 2", "12 3", "\u0120 a"],
        "eos_token_id": tokens.index("<|end\uff5c>"),
        "bos_token_id": tokens.index("<|im_end|>"),
        **more,
    }
    return {**metadata, "pre": pre} if pre else metadata


def _file(tokenizer: Mapping[str, Any], **others: Any) -> GgufFile:
    return GgufFile((Path("m.gguf"),), {**{f"tokenizer.ggml.{k}": v for k, v in tokenizer.items()}, **others}, {})


def _loaded(tokenizer: Mapping[str, Any], folder: Path, architecture: str = "llama", **others: Any) -> Any:
    vocabulary = read_vocabulary(_file(tokenizer, **others))
    assert vocabulary is not None
    write_tokenizer(vocabulary, architecture, 64, folder)
    return load_tokenizer(folder)


def _pieces(tokenizer: Any, text: str) -> list[str]:
    tokens: list[str] = tokenizer.convert_ids_to_tokens(tokenizer.encode(text, add_special_tokens=False))
    return tokens


def test_sentence_pieces_are_merged_by_score(tmp_path: Path) -> None:
    tokenizer = _loaded(SPM, tmp_path)
    assert _pieces(tokenizer, "abc") == ["\u2581abc"]
    assert _pieces(tokenizer, "a") == ["\u2581", "a"]
    assert _pieces(tokenizer, "\u00e9") == ["\u2581", "<0xC3>", "<0xA9>"]
    # Two spaces are a token of the user, found before the text is cut; what follows begins with a space again.
    assert _pieces(tokenizer, "a  ab") == ["\u2581", "a", "  ", "\u2581ab"]
    assert (
        tokenizer.encode("ab")[0] == 1
        and tokenizer.decode(tokenizer.encode("ab c"), skip_special_tokens=True) == "ab c"
    )


def test_without_a_space_before_the_text(tmp_path: Path) -> None:
    tokenizer = _loaded({**SPM, "add_space_prefix": False, "add_bos_token": False, "add_eos_token": True}, tmp_path)
    assert _pieces(tokenizer, "abc") == ["ab", "c"]
    assert (
        tokenizer.encode("abc")[-1] == 2
        and tokenizer.decode(tokenizer.encode(" ab", add_special_tokens=False)) == " ab"
    )


def test_phi3_swallows_spaces_after_special_tokens(tmp_path: Path) -> None:
    (tmp_path / "phi").mkdir()
    assert _pieces(_loaded(SPM, tmp_path / "phi", "phi3"), "<|user|>\nab") == ["<|user|>", "\u2581ab"]
    (tmp_path / "llama").mkdir()
    assert "<0x0A>" in _pieces(_loaded(SPM, tmp_path / "llama"), "<|user|>\nab")


def test_bytes_are_merged_in_the_order_of_the_file(tmp_path: Path) -> None:
    tokenizer = _loaded(_bpe(), tmp_path)
    assert _pieces(tokenizer, "hello a123") == ["hel", "l", "o", "\u0120a", "123"]
    # Whole tokens: special ones outside the alphabet of bytes, and those of the user, which are not special.
    assert _pieces(tokenizer, "he<|end\uff5c>he<think>") == ["he", "<|end\uff5c>", "he", "<think>"]
    assert tokenizer.decode(tokenizer.encode("<think>he<|im_end|>"), skip_special_tokens=True) == "<think>he"
    assert tokenizer.decode(tokenizer.encode("h\u00e9llo  w\n")) == "h\u00e9llo  w\n"


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("gpt-2", ["123", "4"]),
        ("smollm", ["1", "2", "3", "4"]),
        ("qwen2", ["1", "2", "3", "4"]),
        ("llama-bpe", ["123", "4"]),
        ("tekken", ["1", "2", "3", "4"]),
    ],
)
def test_digits_are_cut_as_the_file_says(pre: str, pieces: list[str], tmp_path: Path) -> None:
    assert _pieces(_loaded(_bpe(pre), tmp_path), "1234") == pieces


def test_whole_words_come_before_merges_where_models_have_it_so(tmp_path: Path) -> None:
    assert _pieces(_loaded(_bpe("llama-bpe"), tmp_path), "hello") == ["hello"]
    (tmp_path / "qwen").mkdir()
    assert _pieces(_loaded(_bpe("qwen2"), tmp_path / "qwen"), "hello") == ["hel", "l", "o"]


def test_texts_begin_where_the_kind_or_the_file_says(tmp_path: Path) -> None:
    ids = {}
    for name, metadata in {
        "llama": _bpe("llama-bpe"),
        "not": _bpe("llama-bpe", add_bos_token=False),
        "gpt": _bpe(),
    }.items():
        (tmp_path / name).mkdir()
        ids[name] = len(_loaded(metadata, tmp_path / name).encode("h"))
    assert ids == {"llama": 2, "not": 1, "gpt": 1}


def test_templates_are_written_as_they_are(tmp_path: Path) -> None:
    keys = {"tokenizer.chat_template": "{{ messages[0].content }}\n", "tokenizer.chat_template.tool_use": "tools"}
    _loaded(_bpe(), tmp_path, **keys, **{"tokenizer.chat_template.../../x": "no"})
    assert (tmp_path / "chat_template.jinja").read_text() == "{{ messages[0].content }}\n"
    assert [file.name for file in (tmp_path / "additional_chat_templates").iterdir()] == ["tool_use.jinja"]


FAULTS: Mapping[str, tuple[dict[str, Any], str]] = {
    "an unknown kind": ({**SPM, "model": "bert"}, "kind is 'bert'"),
    "an unknown pre-tokenizer": (_bpe("dolphin"), "'dolphin' is not known; read are llama-bpe"),
    "no pre-tokenizer": (_bpe(None), "names no pre-tokenizer"),
    "a token twice": ({**SPM, "tokens": [*SPM["tokens"][:-1], "a"]}, "'a' of kind 3 occurs twice"),
    "an empty token": ({**SPM, "tokens": ["", *SPM["tokens"][1:]]}, "is empty"),
    "tokens that are numbers": ({**SPM, "tokens": [1, 2]}, "tokens is not a list"),
    "fewer scores": ({**SPM, "scores": [0.0]}, "1 scores"),
    "no scores": ({k: v for k, v in SPM.items() if k != "scores"}, "needs a score"),
    "a score that is not a number": ({**SPM, "scores": [float("nan"), *SPM["scores"][1:]]}, "a score is infinite"),
    "an unknown kind of token": ({**SPM, "token_type": [77, *SPM["token_type"][1:]]}, "of kind 77"),
    "a special token beyond the end": ({**SPM, "eos_token_id": 9999}, "the id 9999"),
    "a merge that is not a pair": (_bpe(merges=["hello"]), "'hello' is not a pair"),
    "a merge of what is not there": (_bpe(merges=["h q!"]), "q!"),
    "a flag that is a number": ({**SPM, "add_bos_token": 1}, "not a truth value"),
}


@pytest.mark.parametrize(("metadata", "why"), FAULTS.values(), ids=FAULTS)
def test_what_contradicts_itself_is_refused(metadata: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E811") as caught:
        _loaded(metadata, tmp_path)
    assert why in caught.value.why


def test_every_way_of_cutting_can_be_compiled(tmp_path: Path) -> None:
    for name in SPLITS:
        (tmp_path / name).mkdir()
        tokenizer = _loaded(_bpe(name), tmp_path / name)
        text = "It's 12,345 \u00e9t\u00e9s\n\n  and\tWE'LL \u4e2d\u6587 x_y"
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text, name


def test_a_file_brings_tokenizer_template_and_ends(tmp_path: Path) -> None:
    family = FAMILIES["qwen2"]
    writer = model_writer(tmp_path / "m.gguf", family, tiny_model(family))
    metadata = _bpe("qwen2")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(metadata["tokens"])
    writer.add_token_types(metadata["token_type"])
    writer.add_token_merges(metadata["merges"])
    writer.add_eos_token_id(metadata["eos_token_id"])
    writer.add_chat_template("{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}")
    writer.add_license("mit")
    writer.add_sampling_temp(0.5)
    writer.add_sampling_top_k(20)
    file, described = read_gguf_folder(finish(writer, tmp_path / "m.gguf"))
    ends = [metadata["eos_token_id"], metadata["tokens"].index("<|im_end|>")]
    assert described.licence == "mit"
    assert described.generation_config == {"eos_token_id": ends, "do_sample": True, "temperature": 0.5, "top_k": 20}
    assert {each.name for each in described.tokenizer_files} == {
        *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    }
    tokenizer = load_tokenizer(described.path)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hel"}], tokenize=False) == "hel<|im_end|>"
    assert json.loads((described.path / "tokenizer_config.json").read_text())["model_max_length"] == 128
    again = read_gguf_folder(file.files[0])[1]
    assert again.path == described.path


def test_a_file_without_a_vocabulary_has_no_tokenizer(tmp_path: Path) -> None:
    family = FAMILIES["llama"]
    _, described = read_gguf_folder(
        finish(model_writer(tmp_path / "m.gguf", family, tiny_model(family)), tmp_path / "m.gguf")
    )
    assert described.tokenizer_files == ()
