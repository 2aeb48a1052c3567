"""A bundle's tokenizer.json as the plan that the app's Kotlin follows; what Kotlin cannot do is a typed refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from edgec.apps.embed.character_classes import Partition, partition
from edgec.apps.embed.kotlin_text import boolean, string
from edgec.apps.embed.text_pattern import atoms, render
from edgec.apps.embed.tokenizer_steps import Json, TokenizerStep, UnknownPart, decoder, flat, normalizer, splitter
from edgec.errors import InputError

_LINE = 100
_INDENT = "        "
# Steps that do not move the beginning of a text, so that the first piece is the one at the start of the text.
_KEEPS_START = ("UnicodeForm", "ReplaceText", "Prepend", "CharacterMap")


@dataclass(frozen=True)
class TokenizerPlan:
    """What the app's tokenizer in Kotlin needs in addition to tokenizer.json itself.

    Attributes:
        values: for the placeholders of ``TokenizerSteps.kt``.
        model: name of the model's template.
    """

    values: Mapping[str, str]
    model: str


def tokenizer_plan(path: Path) -> TokenizerPlan:
    """Read a tokenizer.json and plan the steps that the app's tokenizer takes.

    Raises:
        InputError: E463 it is not JSON, E470 it has a part that the app's tokenizer does not support.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return _plan(text, json.loads(text))
    except UnknownPart as error:
        raise InputError(
            "the app's tokenizer does not support this tokenizer.json",
            where=str(path),
            why=str(error)[:300],
            fix="export a model with another tokenizer, or call the runtime with your own tokenizer",
            code="E470",
        ) from error
    except (ValueError, OSError) as error:
        fix = "export the model again"
        raise InputError("a file of the bundle cannot be read", str(path), str(error)[:200], fix, "E463") from error


def _plan(text: str, written: Any) -> TokenizerPlan:
    tokenizer = _loaded(text)
    # As the library writes it: with every field, even those that the file is too old to have.
    read = json.loads(tokenizer.to_str())
    _check_file(written, tokenizer)
    normalizers = [step for part in flat(read["normalizer"], "normalizers") for step in normalizer(part)]
    splitters = [step for part in flat(read["pre_tokenizer"], "pretokenizers") for step in splitter(part)]
    decoders = [step for part in flat(read["decoder"], "decoders") for step in decoder(part)]
    _check_start(normalizers, splitters)
    lists = {"normalizers": normalizers, "splitters": splitters, "decoders": decoders}
    expression, template = _model(read["model"])
    before, after = _around(tokenizer)
    values = {
        **_tables(lists),
        "ids_before": ", ".join(map(str, before)),
        "ids_after": ", ".join(map(str, after)),
        "token_model": expression,
    }
    return TokenizerPlan(values, template)


def _loaded(text: str) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(text)
    except BaseException as error:  # the library's errors have no class of their own, and a panic is not an Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise UnknownPart(f"the tokenizers library refuses it: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _tables(lists: Mapping[str, Sequence[TokenizerStep]]) -> dict[str, str]:
    """The placeholders for the steps, and for the tables of characters that they share."""
    steps = [step for each in lists.values() for step in each]
    try:
        classes = partition(atom for step in steps for atom in atoms(step.pattern or ()))
    except ValueError as error:
        raise UnknownPart(f"a part of a regular expression: {error}") from error
    maps = [step.map for step in steps if step.map is not None]
    return {
        "character_classes": _lines(classes.table),
        "character_maps": "".join(
            f"    private val map{index} = listOf({_lines(table)})\n" for index, table in enumerate(maps)
        ),
        **{name: _listed(each, classes, maps) for name, each in lists.items()},
    }


def _check_start(normalizers: Sequence[TokenizerStep], splitters: Sequence[TokenizerStep]) -> None:
    """Refuse Metaspace's ``first`` after steps that move the text: it asks for positions in the original text."""
    first = any("Prepended.FIRST" in step.kotlin for step in splitters)
    moving = next((step.kotlin for step in normalizers if not step.kotlin.startswith(_KEEPS_START)), None)
    if first and moving is not None:
        raise UnknownPart(f"Metaspace with prepend_scheme first after {moving}")


def _lines(text: str) -> str:
    """A table as several literals, one per line, since class files limit the length of a literal."""
    rows = [text[start : start + _LINE] for start in range(0, len(text), _LINE)] or [""]
    return "\n" + "".join(f"{_INDENT}{string(row)},\n" for row in rows) + "    "


def _listed(steps: Sequence[TokenizerStep], classes: Partition, maps: Sequence[str]) -> str:
    rows = [_expression(step, classes, maps) for step in steps]
    return "\n" + "".join(f"{_INDENT}{row},\n" for row in rows) + "    " if rows else ""


def _expression(step: TokenizerStep, classes: Partition, maps: Sequence[str]) -> str:
    pattern = f"pattern({string(render(step.pattern, classes))})" if step.pattern is not None else ""
    table = f"map{maps.index(step.map)}" if step.map is not None else ""
    return step.kotlin.replace("{pattern}", pattern).replace("{map}", table)


def _around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The ids that the library puts before and after a text."""
    texts = chain(("a", "0", "the", " "), islice(tokenizer.get_vocab(with_added_tokens=False), 100))
    encoded = next((each for each in map(tokenizer.encode, texts) if 0 in each.special_tokens_mask), None)
    if encoded is None:
        raise UnknownPart("no text gives a token")
    inside = [index for index, special in enumerate(encoded.special_tokens_mask) if not special]
    return encoded.ids[: inside[0]], encoded.ids[inside[-1] + 1 :]


def _check_file(written: Any, tokenizer: Any) -> None:
    """Refuse a vocabulary, merges or added tokens that the app cannot read from the file."""
    added, model = written.get("added_tokens") or [], list(written["model"])
    # The library assigns other ids where those of the file leave gaps.
    if {token["id"]: token["content"] for token in added} != {
        key: token.content for key, token in tokenizer.get_added_tokens_decoder().items()
    }:
        raise UnknownPart("added_tokens whose ids leave gaps")
    single = next((token["content"] for token in added if token["single_word"]), None)
    if single is not None:
        raise UnknownPart(f"the added token {single!r} with single_word")
    if "merges" in model and model.index("merges") < model.index("vocab"):
        raise UnknownPart("merges before the vocabulary")


def _model(model: Json) -> tuple[str, str]:
    """The Kotlin expression that creates the model, and the name of its template."""
    kind = model["type"]
    if kind == "BPE":
        if model.get("dropout"):
            raise UnknownPart("dropout")
        return f"BytePairModel(file, {_pair_options(model)})", "BytePairModel"
    if kind == "Unigram":
        unknown = "null" if model.get("unk_id") is None else str(int(model["unk_id"]))
        return f"UnigramModel(file, {unknown}, {boolean(bool(model.get('byte_fallback')))})", "UnigramModel"
    if kind == "WordPiece":
        prefix, longest = string(model["continuing_subword_prefix"]), int(model["max_input_chars_per_word"])
        return f"WordPieceModel(file, {string(model['unk_token'])}, {prefix}, {longest})", "WordPieceModel"
    if kind == "WordLevel":
        return f"WordLevelModel(file, {string(model['unk_token'])})", "WordLevelModel"
    raise UnknownPart(f"the model {kind}")


def _pair_options(model: Json) -> str:
    unknown = model.get("unk_token")
    options = {
        "unknown": "null" if unknown is None else string(unknown),
        "prefix": string(model.get("continuing_subword_prefix") or ""),
        "suffix": string(model.get("end_of_word_suffix") or ""),
        "fuseUnknown": boolean(bool(model.get("fuse_unk"))),
        "byteFallback": boolean(bool(model.get("byte_fallback"))),
        "ignoreMerges": boolean(bool(model.get("ignore_merges"))),
    }
    rows = "".join(f"\n{_INDENT}{name} = {value}," for name, value in options.items())
    return f"BytePairOptions({rows}\n    )"
