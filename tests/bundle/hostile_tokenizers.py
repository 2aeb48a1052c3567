"""Tokenizers that are somebody's program: small files whose parts take all memory, all time, or the process itself."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

VOCABULARY = {character: index for index, character in enumerate("abcdefghijklmnopqrstuvwxyz <>.")}


def tokenizer_json(added: int = 0, **parts: Any) -> dict[str, Any]:
    """A tokenizer.json of single letters, of which some parts are given."""
    tokens = [
        {"id": 30 + place, "content": f"<{place}>", "special": True}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for place in range(added)
    ]
    model = {"type": "BPE", "vocab": VOCABULARY, "merges": []}
    names = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    return {"version": "1.0", **dict.fromkeys(names), "added_tokens": tokens, "model": model, **parts}


def tokenizer_folder(folder: Path, added: int = 0, config: dict[str, Any] | None = None, **parts: Any) -> Path:
    """A folder with such a tokenizer."""
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(added, **parts)))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **(config or {})})
    )
    return folder


def replace_all(pattern: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def in_row(*parts: dict[str, Any], name: str = "normalizers") -> dict[str, Any]:
    return {"type": "Sequence", name: list(parts)}


def split(expression: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


def charsmap(table: bytes) -> dict[str, Any]:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


GROWING: dict[str, dict[str, Any]] = {
    "three normalizers": {"normalizer": in_row(*[replace_all("a", "a" * 1000)] * 3)},
    "in lists in lists": {"normalizer": in_row(in_row(in_row(replace_all("a", "a" * 1000))), replace_all("a", "aa"))},
    "an expression that takes nothing": {"normalizer": replace_all("x*", "a" * 1000, "Regex")},
    "an empty text": {"normalizer": replace_all("", "a" * 1000)},
    "a beginning": {"normalizer": {"type": "Prepend", "prepend": "a" * 1000}},
    "letters that are decomposed": {"normalizer": in_row(*[replace_all("ل", "ﷺ"), {"type": "NFKD"}] * 3)},
    "letters that are made small": {"normalizer": in_row(*[replace_all("i̇", "İİ"), {"type": "Lowercase"}] * 10)},
    "bytes of bytes": {"pre_tokenizer": in_row(
        *[{"type": "ByteLevel", "add_prefix_space": False, "use_regex": False, "trim_offsets": True}] * 20,
        name="pretokenizers")},
    "a decoder": {"decoder": in_row(*[replace_all("a", "a" * 1000)] * 3, name="decoders")},
    "a decoder of empty texts": {"decoder": in_row(*[{"type": "BPEDecoder", "suffix": ""}] * 30, name="decoders")},
    "a template": {"post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "x", "type_id": 0}}] * 1000 + [{"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"x": {"id": "x", "ids": [1] * 1000, "tokens": ["b"] * 1000}}}},
    "a template of copies": {"post_processor": {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 100_000,
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {}}},
}  # fmt: skip
"""Parts that make so much of a text that the memory ends."""

TABLES: dict[str, bytes] = {
    "of a false size": b"\xff" * 64,
    "of a size that takes all memory": b"\xff\xff\xff\x7f" + b"a" * 64,
    "that leads outside": b"\x04\0\0\0abcd",
    "of a size that is odd": b"\x03\0\0\0abcd",
    "of one byte": b"a",
}
EXPRESSIONS = ("(a+)+$b", r"(\w\w?)+[.,]", r"(\w|a)+[.,]")
"""Expressions that take exponential time on `LETTERS`, which the library notices, and then panics."""

LETTERS = "a" * 200 + " ."


def harmful() -> dict[str, dict[str, Any]]:
    """Whole files of tokenizer.json that are refused when they are opened."""
    tables = {f"a table {name}": {"normalizer": charsmap(table)} for name, table in TABLES.items()}
    made = {name: tokenizer_json(**parts) for name, parts in (GROWING | tables).items()}
    return {**made, "many added tokens": tokenizer_json(200_000)}
