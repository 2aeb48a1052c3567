"""Tokenizers are somebody's program: what they may take is bounded, and what ends of it is not edgec."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from edgec.bundle import limited_tokenizer
from edgec.bundle.charsmap import longest_replacement, tables_of_model
from edgec.bundle.encoding import decode_tokens, token_ids
from edgec.bundle.limited_tokenizer import LimitedTokenizer
from edgec.bundle.tokenizer_checks import Opening, check_files
from edgec.bundle.tokenizer_folder import open_tokenizer
from edgec.errors import InputError
from tests.bundle.hostile_tokenizers import (
    EXPRESSIONS,
    GROWING,
    LETTERS,
    TABLES,
    charsmap,
    in_row,
    replace_all,
    split,
    tokenizer_folder,
)


def refused(folder: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        open_tokenizer(folder)
    return caught.value


@pytest.mark.parametrize("name", GROWING)
def test_parts_that_make_too_much_of_a_text_are_refused(tmp_path: Path, name: str) -> None:
    error = refused(tokenizer_folder(tmp_path / "t", **GROWING[name]))
    assert error.code == "E158" and ("may make" in error.why or "adds" in error.why)


def test_replacements_of_different_texts_do_not_multiply(tmp_path: Path) -> None:
    """As GLM's tokenizer writes line ends and runs of spaces; and the same where one replaces what another wrote."""
    blanks = [replace_all(" " * size, f"<|blank_{size}|>") for size in range(80, 1, -1)]
    lines = [replace_all("\n", "<n>"), replace_all("\t", "<|tab|>")]
    assert check_files(tokenizer_folder(tmp_path / "t", normalizer=in_row(*lines, *blanks)), {}) is Opening.KNOWN
    chain = [replace_all(old, new * 20) for old, new in ("ab", "bc", "cd")]
    assert "may make 8e+03" in refused(tokenizer_folder(tmp_path / "u", normalizer=in_row(*chain))).why


def test_a_part_without_its_type_counts(tmp_path: Path) -> None:
    parts = [{name: value for name, value in replace_all("a", "a" * 1000).items() if name != "type"}] * 3
    with pytest.raises(ValueError, match="may make 1e\\+09"):
        check_files(tokenizer_folder(tmp_path / "t", normalizer=in_row(*parts)), {})


@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_table_of_replacements_is_refused(tmp_path: Path, name: str) -> None:
    error = refused(tokenizer_folder(tmp_path / "t", normalizer=charsmap(TABLES[name])))
    assert error.code == "E158" and "precompiled_charsmap" in error.why


@pytest.mark.long
def test_too_many_added_tokens_are_refused_at_once(tmp_path: Path) -> None:
    error = refused(tokenizer_folder(tmp_path / "t", added=200_000))
    assert error.code == "E158" and "200,000 added tokens" in error.why


def test_a_part_that_stands_twice_is_refused(tmp_path: Path) -> None:
    folder = tokenizer_folder(tmp_path / "t")
    file = folder / "tokenizer.json"
    bad = json.dumps(charsmap(TABLES["of a false size"]))
    file.write_text('{"normalizer": ' + bad + ", " + file.read_text()[1:])
    assert "stands twice" in refused(folder).why


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_that_goes_back_without_end_is_a_typed_error(tmp_path: Path, expression: str) -> None:
    tokenizer = open_tokenizer(tokenizer_folder(tmp_path / "t", pre_tokenizer=split(expression)))
    with pytest.raises(InputError) as caught:
        token_ids(tokenizer, LETTERS)
    assert caught.value.code in ("E158", "E661")
    assert token_ids(tokenizer, "bad") == [1, 0, 3]  # others are read as before


@pytest.mark.long
def test_time_and_memory_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An expression that the library lets go on, at every place of a text."""
    monkeypatch.setattr(limited_tokenizer, "SECONDS", 1)
    tokenizer = open_tokenizer(tokenizer_folder(tmp_path / "t", pre_tokenizer=split(r"\w+\w+\w+[.,]")))
    with pytest.raises(InputError) as caught:
        token_ids(tokenizer, "a" * 2000 + " .")
    assert caught.value.code == "E661" and "processor time" in caught.value.why


def test_a_panic_in_this_process_is_a_typed_error(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    folder = tokenizer_folder(tmp_path / "t")
    tokenizer = open_tokenizer(folder)
    tokenizer._tokenizer = Tokenizer.from_file(
        str(tokenizer_folder(tmp_path / "u", pre_tokenizer=split("(a+)+$b")) / "tokenizer.json")
    )
    with pytest.raises(InputError, match="E158"):
        token_ids(tokenizer, "a" * 40)


TEXTS = ["", "a", "ab <1> ba", "abc" * 50, "<0>", "é", "a\nb "]


def test_a_process_of_its_own_reads_and_writes_the_same(tmp_path: Path) -> None:
    """The same expression twice, once in a form that is known and once in one that is not."""
    text, pair = ({"Sequence": {"id": name, "type_id": place}} for place, name in enumerate("AB"))
    frame = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<0>", "type_id": 0}}, text],
             "pair": [text, pair],
             "special_tokens": {"<0>": {"id": "<0>", "ids": [30], "tokens": ["<0>"]}}}  # fmt: skip
    parts: dict[str, Any] = {"post_processor": frame}
    own = open_tokenizer(tokenizer_folder(tmp_path / "own", 2, pre_tokenizer=split("a+|[^a]+"), **parts))
    other = open_tokenizer(tokenizer_folder(tmp_path / "other", 2, pre_tokenizer=split("(?:(?:a)+)+|[^a]+"), **parts))
    assert isinstance(other._tokenizer, LimitedTokenizer) and not isinstance(own._tokenizer, LimitedTokenizer)
    for options in ({}, {"add_special_tokens": False}, {"truncation": True, "max_length": 3},
                    {"padding": "max_length", "max_length": 9, "truncation": True, "pad_token": "<1>"}):  # fmt: skip
        for one in (own, other):
            one.pad_token = "<1>"
        asked = {name: value for name, value in options.items() if name != "pad_token"}
        assert own(TEXTS, **asked).data == other(TEXTS, **asked).data
        assert own("ab", "ba", **asked).data == other("ab", "ba", **asked).data
    assert own("ab ba", return_offsets_mapping=True).data == other("ab ba", return_offsets_mapping=True).data
    for special in (False, True):
        assert decode_tokens(own, [0, 31, 1, 26], special=special) == decode_tokens(
            other, [0, 31, 1, 26], special=special
        )
    for one in (own, other):
        one.add_tokens(["abc"])
    assert own("xabcx")["input_ids"] == other("xabcx")["input_ids"] == [30, 23, 32, 23]


# Expressions of published tokenizers: GPT-2, GPT-4, GPT-4o, DeepSeek, Qwen, BLOOM, CLIP and OLMo have these forms.
PUBLISHED = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lo}\p{M}]*[\p{Ll}\p{Lo}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[!-/:-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r"<\|startoftext\|>|'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    r"(?=(\d{3})+(?!\d))",
)


@pytest.mark.parametrize("expression", PUBLISHED)
def test_published_expressions_are_known(tmp_path: Path, expression: str) -> None:
    assert check_files(tokenizer_folder(tmp_path / "t", pre_tokenizer=split(expression)), {}) is Opening.KNOWN


@pytest.mark.long
def test_what_files_say_in_other_ways_is_opened_first_elsewhere(tmp_path: Path) -> None:
    folder = tokenizer_folder(tmp_path / "t")
    assert check_files(folder, {}) is Opening.KNOWN
    assert check_files(folder, {"_spm_precompiled_charsmap": "x"}) is Opening.FOLDER
    (folder / "tokenizer.model").write_bytes(b"YWI= 0\nYWM= 1\n")
    assert check_files(folder, {}) is Opening.KNOWN  # tokenizer.json is what is read
    (folder / "tokenizer.json").unlink()
    assert check_files(folder, {}) is Opening.FOLDER
    with pytest.raises(InputError, match="E158"):
        open_tokenizer(folder)


def _message(number: int, held: bytes) -> bytes:
    """A field of a protobuf message whose value is bytes shorter than 128."""
    return bytes([number << 3 | 2, len(held)]) + held


@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_table_in_a_sentencepiece_model_is_refused(tmp_path: Path, name: str) -> None:
    folder = tokenizer_folder(tmp_path / "t", config={"tokenizer_class": "T5Tokenizer"})
    (folder / "tokenizer.json").unlink()
    (folder / "spiece.model").write_bytes(_message(1, _message(1, b"a")) + _message(3, _message(2, TABLES[name])))
    error = refused(folder)
    assert error.code == "E158" and "precompiled_charsmap is damaged" in error.why


@pytest.mark.long  # trains a model
@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc_cf", "identity"])
def test_the_tables_that_sentencepiece_writes_are_taken(tmp_path: Path, rule: str) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat on a mat", "a dog lay on the log", "brown quick vex jumps"] * 20),
        model_writer=out, vocab_size=30, hard_vocab_limit=False, normalization_rule_name=rule, minloglevel=2,
    )  # fmt: skip
    (table,) = tables_of_model(out.getvalue())
    assert longest_replacement(table) == (1 if rule == "identity" else 18)  # U+FDFA
    folder = tokenizer_folder(tmp_path / "t", config={"tokenizer_class": "T5Tokenizer"})
    (folder / "tokenizer.json").unlink()
    (folder / "spiece.model").write_bytes(out.getvalue())
    assert check_files(folder, {}) is Opening.KNOWN
    tokenizer = open_tokenizer(folder)
    assert not isinstance(tokenizer._tokenizer, LimitedTokenizer)
    assert decode_tokens(tokenizer, token_ids(tokenizer, "the cat sat")) == "the cat sat"


def test_a_table_that_lacks_a_unit_is_refused() -> None:
    """Two units of 256, whose first one leads to the second half, and the same without that half."""
    units = [256 << 10] + [0] * 511
    table = struct.pack("<513I", 4 * 512, *units) + b"a\0"
    assert longest_replacement(table) == 1
    with pytest.raises(ValueError, match="leads outside"):
        longest_replacement(struct.pack("<257I", 4 * 256, *units[:256]) + b"a\0")
    with pytest.raises(ValueError, match="leads outside"):
        longest_replacement(struct.pack("<513I", 4 * 512, *units[:-1], (1 << 31) + 2) + b"a\0")
