"""The bytes of each token of a tokenizer, and which tokens are none: what a grammar sees of a vocabulary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from edgec.bundle.encoding import decode_tokens
from edgec.errors import InputError
from edgec.runtime_py.structured.refusals import unsuited

_SPACE: Final = "\N{LOWER ONE EIGHTH BLOCK}"
_LONGEST_HEX, _TRIED = 6, 48


@dataclass(frozen=True)
class Vocabulary:
    """What each token id writes.

    Attributes:
        tokens: the bytes of each id, empty where an id writes nothing.
        special: ids that write nothing, or that end a text; they never stand inside one.
        eos: ids that end a text.
    """

    tokens: tuple[bytes, ...]
    special: frozenset[int]
    eos: frozenset[int]

    @cached_property
    def ids(self) -> Mapping[bytes, int]:
        """The smallest id that writes each string of bytes."""
        known = enumerate(self.tokens)
        return {text: index for index, text in reversed([pair for pair in known if pair[0] not in self.special])}

    @cached_property
    def longest(self) -> int:
        """The length of the longest token, in bytes."""
        return max(map(len, self.ids), default=0)

    def spelled(self, text: bytes) -> list[int]:
        """Tokens that write ``text``, the longest first; the end is left out where no token writes it."""
        out, start = [], 0
        while start < len(text):
            sizes = range(min(self.longest, len(text) - start), 0, -1)
            size = next((size for size in sizes if text[start : start + size] in self.ids), 0)
            if not size:
                break
            out.append(self.ids[text[start : start + size]])
            start += size
        return out


def vocabulary_of(tokenizer: Any, size: int | None, eos: frozenset[int]) -> Vocabulary:
    """Read the vocabulary of a tokenizer of transformers.

    Args:
        tokenizer: a fast one, whose tokens are bytes (GPT-2, Llama 3, Qwen) or pieces with byte fallback (Llama 2).
        size: the model's own number of ids; ids beyond are left out. None: the tokenizer's.
        eos: ids that end a text.

    Raises:
        InputError: E617, its texts are not its tokens' bytes one after the other.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise unsuited("tokenizer", "it is not one of the tokenizers library")
    read = _reader(json.loads(backend.to_str()).get("decoder") or {})
    ids: dict[str, int] = backend.get_vocab(True)
    count = max(ids.values(), default=-1) + 1
    added = backend.get_added_tokens_decoder()
    tokens = [b""] * min(count, count if size is None else size)
    for token, index in ids.items():
        if index < len(tokens) and index not in added:
            tokens[index] = read(token)
    special = set(eos) | {int(index) for index in tokenizer.all_special_ids}
    for index, token in added.items():
        if index < len(tokens) and not token.special and _written(tokenizer, [index]) == token.content:
            tokens[index] = token.content.encode()
    special |= {index for index, text in enumerate(tokens) if not text}
    made = Vocabulary(tuple(tokens), frozenset(special), frozenset(index for index in eos if index < len(tokens)))
    _check(tokenizer, made)
    return made


def _reader(decoder: Mapping[str, Any]) -> Any:
    """How a piece of the vocabulary becomes bytes, by what the tokenizer's decoder does."""
    steps = [decoder, *decoder.get("decoders", ())]
    kinds = {step.get("type") for step in steps}
    if "ByteLevel" in kinds:
        return _byte_level
    spaced = any(step.get("type") == "Replace" and step.get("pattern") == {"String": _SPACE} for step in steps)
    if spaced or "Metaspace" in kinds:
        return _with_fallback if "ByteFallback" in kinds else _pieces
    raise unsuited("tokenizer", f"its decoder is {decoder.get('type') or 'absent'}")


def _byte_alphabet() -> dict[int, str]:
    """GPT-2's printable characters for bytes, each with the character whose number is the byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {256 + place: chr(byte) for place, byte in enumerate(others)}


_ALPHABET: Final = _byte_alphabet()


def _byte_level(piece: str) -> bytes:
    try:
        return piece.translate(_ALPHABET).encode("latin-1") if all(ord(c) in _ALPHABET for c in piece) else b""
    except UnicodeEncodeError:
        return b""


def _pieces(piece: str) -> bytes:
    return piece.replace(_SPACE, " ").encode()


def _with_fallback(piece: str) -> bytes:
    if len(piece) == _LONGEST_HEX and piece.startswith("<0x") and piece.endswith(">"):
        try:
            return bytes([int(piece[3:5], 16)])
        except ValueError:
            return _pieces(piece)
    return _pieces(piece)


def _written(tokenizer: Any, ids: list[int]) -> str:
    try:
        return decode_tokens(tokenizer, ids)
    except InputError:
        return ""


def _check(tokenizer: Any, vocabulary: Vocabulary) -> None:
    """Refuse a tokenizer that writes something else than its tokens' bytes, tried on some of them."""
    plain = [
        index for index, text in enumerate(vocabulary.tokens) if text.isalpha() and index not in vocabulary.special
    ]
    tried = plain[:: max(1, len(plain) // _TRIED)]
    expected = b"".join(vocabulary.tokens[index] for index in tried).decode(errors="replace")
    if not tried or _written(tokenizer, tried) != expected:
        raise unsuited("tokenizer", "its texts are not its tokens' bytes one after the other")
