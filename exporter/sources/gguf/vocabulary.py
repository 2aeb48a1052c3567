"""The vocabulary of a GGUF file, checked: texts, kinds and scores of tokens, merges, special tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.bundle.gguf_faults import gguf_error
from edgec.bundle.gguf_values import shortened
from edgec.errors import InputError
from edgec.exporter.sources.gguf.file import GgufFile
from edgec.exporter.sources.gguf.metadata import token_id

# Kinds of tokens in llama.cpp's numbering; 5 is unused, 6 a byte.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
_KINDS = range(7)
_SPECIAL = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
_NONE = ("none", "no_vocab")
# Texts that end an answer in every model that has them (llama.cpp's list, for the architectures that are read here).
_ENDS = (
    *("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>"),
    *("<|end_of_text|>", "<eos>", "<EOT>", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
)


@dataclass(frozen=True)
class GgufVocabulary:
    """What a tokenizer is made of.

    Attributes:
        file: where it is from.
        model: the kind of tokenizer, ``gpt2`` (BPE over bytes) or ``llama`` (SentencePiece's BPE).
        tokens: texts by id.
        kinds: of each token.
        scores: of each token, or none.
        merges: as stored, or none.
        special: texts by their names in tokenizer_config.json.
    """

    file: GgufFile
    model: str
    tokens: Sequence[str]
    kinds: Sequence[int]
    scores: Sequence[float]
    merges: Sequence[str]
    special: Mapping[str, str]

    def flag(self, name: str, default: bool) -> bool:
        """A truth value of the tokenizer's metadata."""
        value = self.file.metadata.get(f"tokenizer.ggml.{name}", default)
        if type(value) is not bool:
            raise vocabulary_fault(self.file, f"tokenizer.ggml.{name} is {str(value)[:40]}, not a truth value")
        return value

    @property
    def ends(self) -> tuple[int, ...]:
        """The ids that end a text, those that are named first, then those that llama.cpp knows by their texts."""
        named = [token_id(self.file, name) for name in ("eos", "eot", "eom")]
        marked = [i for i, kind in enumerate(self.kinds) if kind in (CONTROL, USER_DEFINED) and self.tokens[i] in _ENDS]
        return tuple(dict.fromkeys(i for i in (*named, *marked) if i is not None and i < len(self.tokens)))


def read_vocabulary(file: GgufFile) -> GgufVocabulary | None:
    """The file's vocabulary; None where it has none.

    Raises:
        InputError: E811, it is of a kind that edgec does not read, or contradicts itself.
    """
    model = file.metadata.get("tokenizer.ggml.model", "none")
    if model in _NONE:
        return None
    if model not in ("gpt2", "llama"):
        raise vocabulary_fault(file, f"its kind is {str(model)[:40]!r}; read are gpt2 (BPE) and llama (SentencePiece)")
    tokens = _list(file, "tokens", str)
    kinds = _list(file, "token_type", int) or [NORMAL] * len(tokens)
    scores = [float(score) for score in _list(file, "scores", float)]
    if not tokens or len(kinds) != len(tokens) or len(scores) not in (0, len(tokens)):
        counts = f"{len(tokens)} tokens, {len(kinds)} kinds, {len(scores)} scores"
        raise vocabulary_fault(file, f"it holds {counts}")
    _check(file, tokens, kinds, scores)
    merges = _list(file, "merges", str)
    return GgufVocabulary(file, str(model), tokens, kinds, scores, merges, _special(file, tokens))


def vocabulary_fault(file: GgufFile, why: str) -> InputError:
    """The error E811, for a reason."""
    return gguf_error(
        "E811",
        file.files[0],
        "The tokenizer of the GGUF file cannot be read.",
        why,
        "Convert the model again with a current llama.cpp, or pass the model that it was made from.",
    )


def _list(file: GgufFile, name: str, kind: type) -> list[Any]:
    values = file.metadata.get(f"tokenizer.ggml.{name}", [])
    if not isinstance(values, list) or any(type(value) is not kind for value in values):
        raise vocabulary_fault(file, f"tokenizer.ggml.{name} is not a list of the kind that it should be")
    return values


def _check(file: GgufFile, tokens: list[str], kinds: list[int], scores: list[float]) -> None:
    known: set[str] = set()
    for token, kind in zip(tokens, kinds, strict=True):
        if token in known or not token or kind not in _KINDS:
            raise vocabulary_fault(file, f"token {shortened(token)} of kind {kind} occurs twice, is empty or odd")
        known.add(token)
    if not all(map(math.isfinite, scores)):
        raise vocabulary_fault(file, "a score is infinite or not a number")


def _special(file: GgufFile, tokens: list[str]) -> dict[str, str]:
    ids = {key: token_id(file, name) for key, name in _SPECIAL.items()}
    beyond = next((number for number in ids.values() if number is not None and number >= len(tokens)), None)
    if beyond is not None:
        raise vocabulary_fault(file, f"a special token has the id {beyond}, and there are {len(tokens)} tokens")
    return {key: tokens[number] for key, number in ids.items() if number is not None}
