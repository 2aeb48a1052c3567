"""A tokenizer as metadata of GGUF: the way back of ``exporter/sources/gguf/tokenizer.py``.

    tokenizer.json -> tokens, kinds, merges or scores, special tokens -> metadata
    metadata -> the tokenizer that a reader makes of it -> the same ids on texts that tokenizers get wrong

How a text is cut before merges is a name in GGUF (``tokenizer.ggml.pre``): the first known one that gives the same ids
is written. A tokenizer that no metadata gives the ids of is refused, since a wrong one says nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from edgec.errors import InputError
from edgec.exporter.sources.gguf.split import DIGIT, SPLITS, Split
from edgec.exporter.sources.gguf.vocabulary import CONTROL, NORMAL, UNKNOWN, USER_DEFINED

UNUSED, BYTE = 5, 6
_BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")
_BYTE_LEVEL, _DIGITS = '"ByteLevel"', '"Digits"'
_SPECIAL = ("bos", "eos", "unk", "pad")
_LOWEST = -1e6
"""The score of tokens that no merge makes."""


@dataclass(frozen=True)
class GgufTokens:
    """What GGUF says of a tokenizer.

    Attributes:
        model: ``gpt2`` (BPE over bytes) or ``llama`` (SentencePiece's BPE).
        tokens: by id, one for each row of the embedding.
        kinds: in llama.cpp's numbering.
        merges: of ``gpt2``, pairs joined by a space.
        scores: of ``llama``, by id.
        special: ids by llama.cpp's names (``bos``, ``eos``, ...).
        begins: texts begin with ``bos``.
        ends: they end with ``eos``.
        split: how texts are cut before merges (``gpt2``).
        prefix: a space is put before a text (``llama``).
    """

    model: str
    tokens: Sequence[str]
    kinds: Sequence[int]
    merges: Sequence[str]
    scores: Sequence[float]
    special: Mapping[str, int]
    begins: bool
    ends: bool
    split: str = ""
    prefix: bool = False

    def describe(self, writer: Any) -> None:
        """Tell a ``gguf.GGUFWriter`` all of it."""
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre(self.split or "default")
        writer.add_token_list(list(self.tokens))
        writer.add_token_types(list(self.kinds))
        writer.add_token_merges(list(self.merges))
        writer.add_token_scores(list(self.scores))
        for name, number in self.special.items():
            getattr(writer, f"add_{name}_token_id")(number)
        writer.add_add_bos_token(self.begins)
        writer.add_add_eos_token(self.ends)
        if self.model == "llama":
            writer.add_add_space_prefix(self.prefix)


def describe_nothing(writer: Any) -> None:
    """Tell a ``gguf.GGUFWriter`` that there is no tokenizer."""
    writer.add_tokenizer_model("no_vocab")


def vocabularies(tokenizer: Any, rows: int, ends: Sequence[int]) -> Iterator[GgufTokens]:
    """What GGUF may say of a tokenizer; all but how texts are cut, or a space before them, is the same in each.

    Args:
        tokenizer: of transformers.
        rows: of the embedding.
        ends: ids that end a text, as the model's settings name them.

    Raises:
        InputError: E826, it is of a kind that GGUF, as edgec reads it, does not have.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    held = json.loads(backend.to_str()) if backend is not None else {}
    kind = held.get("model", {}).get("type")
    if kind != "BPE":
        raise untold(str(getattr(tokenizer, "name_or_path", "")), f"its kind is {kind or 'unknown'}, not BPE")
    text = json.dumps([held.get(name) for name in ("pre_tokenizer", "decoder")], ensure_ascii=False)
    plain = _vocabulary(tokenizer, held, rows, ends, "gpt2" if _BYTE_LEVEL in text else "llama")
    if plain.model == "llama":
        yield from (replace(plain, prefix=prefix) for prefix in (True, False))
        return
    # Likely ones first: the names whose pattern stands in the file; of those that cut alike, the first.
    firsts = {split: name for name, split in reversed(list(SPLITS.items()))}
    whole = bool(held["model"].get("ignore_merges"))
    known = {json.dumps(pattern, ensure_ascii=False) for split in firsts for pattern in split.patterns}
    stated = {pattern for pattern in known if pattern in text}
    if _DIGITS in text:
        stated.add(json.dumps(DIGIT))

    def unlikely(split: Split) -> tuple[bool, bool, int]:
        named = {json.dumps(pattern, ensure_ascii=False) for pattern in split.patterns}
        return split.whole_words != whole, not named <= stated, -len(named & stated)

    yield from (replace(plain, split=firsts[split]) for split in sorted(firsts, key=unlikely))


def untold(where: str, why: str) -> InputError:
    """The refusal of a tokenizer that GGUF cannot tell."""
    return InputError(
        what="The tokenizer of this model cannot be written as GGUF.",
        where=where,
        why=why,
        fix="leave --format gguf out, or convert the model with llama.cpp's own converter",
        code="E826",
    )


def _vocabulary(tokenizer: Any, held: Mapping[str, Any], rows: int, ends: Sequence[int], model: str) -> GgufTokens:
    texts: dict[str, int] = dict(held["model"]["vocab"])
    added = {token["content"]: token for token in held.get("added_tokens") or []}
    texts |= {content: int(token["id"]) for content, token in added.items()}
    by_id = {number: content for content, number in texts.items()}
    tokens = [by_id.get(number, f"[PAD{number}]") for number in range(rows)]
    unknown = held["model"].get("unk_token")
    kind = partial(_kind, added=added, unknown=unknown, bytes_too=model == "llama")
    kinds = [kind(token) if number in by_id else UNUSED for number, token in enumerate(tokens)]
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in held["model"].get("merges") or []]
    begins, last = _surrounded(tokenizer)
    plain = GgufTokens(model, tokens, kinds, (), (), _special(tokenizer, texts, unknown, ends), begins, last)
    if model == "gpt2":
        return replace(plain, merges=[" ".join(pair) for pair in merges])
    return replace(plain, scores=_scores(tokens, merges))


def _kind(token: str, added: Mapping[str, Any], unknown: str | None, bytes_too: bool) -> int:
    if token == unknown:
        return UNKNOWN
    if token in added:
        return CONTROL if added[token].get("special") else USER_DEFINED
    return BYTE if bytes_too and _BYTE_TOKEN.fullmatch(token) else NORMAL


def _scores(tokens: Sequence[str], merges: Sequence[Sequence[str]]) -> list[float]:
    """A token's score: the sooner a merge makes it the higher, as SentencePiece's BPE numbers them."""
    ranks: dict[str, int] = {}
    for rank, pair in enumerate(merges):
        ranks.setdefault("".join(pair), rank)
    return [-float(ranks[token]) if token in ranks else _LOWEST for token in tokens]


def _special(tokenizer: Any, texts: Mapping[str, int], unknown: str | None, ends: Sequence[int]) -> dict[str, int]:
    """Ids of special tokens; of several that end a text the tokenizer's own first."""
    own = {name: getattr(tokenizer, f"{name}_token_id", None) for name in _SPECIAL}
    named = {name: int(number) for name, number in own.items() if isinstance(number, int)}
    if unknown in texts:
        named.setdefault("unk", texts[str(unknown)])
    every = list(dict.fromkeys([*([named["eos"]] if named.get("eos") in ends else []), *ends]))
    return {**named, **dict(zip(("eos", "eot", "eom"), every, strict=False))}


def _surrounded(tokenizer: Any) -> tuple[bool, bool]:
    """Whether the tokenizer puts its first token before a text and its last one after it."""
    ids: list[int] = tokenizer("x")["input_ids"]
    first, last = tokenizer.bos_token_id, tokenizer.eos_token_id
    return bool(ids) and first is not None and ids[0] == first, bool(ids) and last is not None and ids[-1] == last


Same = Callable[[GgufTokens], Sequence[str]]


def first_that_reads(candidates: Iterator[GgufTokens], differing: Same, where: str) -> GgufTokens:
    """The first vocabulary whose reader gives the same ids.

    Args:
        candidates: those that may.
        differing: labels of the texts of which a vocabulary gives other ids.
        where: the model, for the message.

    Raises:
        InputError: E826, none does.
    """
    fewest: Sequence[str] | None = None
    for candidate in candidates:
        other = differing(candidate)
        if not other:
            return candidate
        fewest = other if fewest is None or len(other) < len(fewest) else fewest
    shown = ", ".join((fewest or ())[:3])
    raise untold(where, f"no way of cutting texts that GGUF names gives the same tokens; best differs on: {shown}")
