"""A bundle's tokenizer.json as the plan that the app's Kotlin follows; what Kotlin cannot do is a typed refusal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from edgec.apps.embed.character_classes import Partition, partition
from edgec.apps.embed.text_pattern import atoms, render
from edgec.apps.embed.tokenizer_steps import Json, TokenizerStep, UnknownPart, decoder, flat, normalizer, splitter
from edgec.errors import InputError

# Steps that do not move the beginning of a text, so that the first piece is the one at the start of the text.
_KEEPS_START = ("UnicodeForm", "ReplaceText", "Prepend", "CharacterMap")


def tokenizer_values(path: Path) -> Mapping[str, Any]:
    """The steps that the app's tokenizer takes for a tokenizer.json, as the section of Kotlin's `TokenizerSteps`.

    Raises:
        InputError: E463 it is not JSON, E470 it has a part that the app's tokenizer does not support.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return _values(text, json.loads(text))
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


def _values(text: str, written: Any) -> Mapping[str, Any]:
    tokenizer = _loaded(text)
    # As the library writes it: with every field, even those that the file is too old to have.
    read = json.loads(tokenizer.to_str())
    _check_file(written, tokenizer)
    normalizers = [step for part in flat(read["normalizer"], "normalizers") for step in normalizer(part)]
    splitters = [step for part in flat(read["pre_tokenizer"], "pretokenizers") for step in splitter(part)]
    decoders = [step for part in flat(read["decoder"], "decoders") for step in decoder(part)]
    _check_start(normalizers, splitters)
    before, after = _around(tokenizer)
    steps = _written({"normalizers": normalizers, "splitters": splitters, "decoders": decoders})
    return {**steps, "before": before, "after": after, "model": _model(read["model"])}


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


def _written(lists: Mapping[str, Sequence[TokenizerStep]]) -> dict[str, Any]:
    """The steps, with the classes of characters that their patterns share."""
    steps = [step for each in lists.values() for step in each]
    try:
        classes = partition(atom for step in steps for atom in atoms(step.whole_pattern))
    except ValueError as error:
        raise UnknownPart(f"a part of a regular expression: {error}") from error
    written = {name: [_step(step, classes) for step in each] for name, each in lists.items()}
    return {"classes": classes.table, **written}


def _step(step: TokenizerStep, classes: Partition) -> dict[str, Any]:
    pattern = {} if step.pattern is None else {"pattern": render(step.pattern, classes)}
    table = {} if step.table is None else {"table": step.table}
    inner = {} if step.inner is None else {"step": _step(step.inner, classes)}
    return {"kind": step.kind, **step.values, **pattern, **table, **inner}


def _check_start(normalizers: Sequence[TokenizerStep], splitters: Sequence[TokenizerStep]) -> None:
    """Refuse Metaspace's ``first`` after steps that move the text: it asks for positions in the original text."""
    first = any(step.values.get("prepended") == "FIRST" for step in splitters)
    moving = next((step.kind for step in normalizers if step.kind not in _KEEPS_START), None)
    if first and moving is not None:
        raise UnknownPart(f"Metaspace with prepend_scheme first after {moving}")


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


def _model(model: Json) -> Mapping[str, Any]:
    """What the app's model of words is made with."""
    kind = model["type"]
    if kind not in _MODELS:
        raise UnknownPart(f"the model {kind}")
    return {"kind": kind, **_MODELS[kind](model)}


def _pairs(model: Json) -> Mapping[str, Any]:
    if model.get("dropout"):
        raise UnknownPart("dropout")
    return {
        "unknown": model.get("unk_token"),
        "prefix": model.get("continuing_subword_prefix") or "",
        "suffix": model.get("end_of_word_suffix") or "",
        "fuseUnknown": bool(model.get("fuse_unk")),
        "byteFallback": bool(model.get("byte_fallback")),
        "ignoreMerges": bool(model.get("ignore_merges")),
    }


_MODELS: Mapping[str, Callable[[Json], Mapping[str, Any]]] = {
    "BPE": _pairs,
    "Unigram": lambda model: {"unknown": model.get("unk_id"), "byteFallback": bool(model.get("byte_fallback"))},
    "WordPiece": lambda model: {
        "unknown": model["unk_token"],
        "prefix": model["continuing_subword_prefix"],
        "longest": int(model["max_input_chars_per_word"]),
    },
    "WordLevel": lambda model: {"unknown": model["unk_token"]},
}
