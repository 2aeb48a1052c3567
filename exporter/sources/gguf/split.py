"""How a text is cut before merges are applied, by the name that a GGUF file states (``tokenizer.ggml.pre``).

Each pattern is that of the models' own tokenizer.json, which llama.cpp names in ``src/llama-vocab.cpp`` beside its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DIGIT = r"\p{N}"
"""Cuts every digit off by itself."""
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_QWEN2 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_REST = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_TEKKEN = rf"{_BEFORE}{_UPPER}*{_LOWER}+|{_BEFORE}{_UPPER}+{_LOWER}*|\p{{N}}|{_REST}"
_GPT4O = rf"{_BEFORE}{_UPPER}*{_LOWER}+{_ENDINGS}?|{_BEFORE}{_UPPER}+{_LOWER}*{_ENDINGS}?|\p{{N}}{{1,3}}|{_REST}"


@dataclass(frozen=True)
class Split:
    """One way of cutting.

    Attributes:
        patterns: regular expressions; what each matches is cut off, one expression after the other.
        whole_words: a piece that is a token is taken as it is, whatever its merges give.
        begins: texts begin with the token for the beginning where the file does not say.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    begins: bool = False


_LIKE_LLAMA3 = Split((_LLAMA3,), whole_words=True, begins=True)
_DIGITS = Split((DIGIT, _GPT2))
SPLITS: Mapping[str, Split] = {
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2"), _LIKE_LLAMA3),
    **dict.fromkeys(("smaug-bpe", "dbrx"), Split((_LLAMA3,))),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "megrez", "kormo"), Split((_QWEN2,))),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"), _DIGITS),
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "mpt"), Split((_GPT2,))),
    "tekken": Split((_TEKKEN,), whole_words=True, begins=True),
    **dict.fromkeys(("gpt-4o", "llama4"), Split((_GPT4O,))),
}
