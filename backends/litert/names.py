"""The names by which LiteRT-LM finds what it calls and what it binds in a ``.tflite``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Final

from edgec.ir.program import State
from edgec.ir.static_methods import DECODE

TOKENS, POSITIONS, LOGITS = "tokens", "input_pos", "logits"
CACHE: Final = "kv_cache_"
_PREFILL: Final = "prefill_"
_LETTERS: Final = {"key": "k", "value": "v"}


def signature_name(tokens: int) -> str:
    """The signature for calls of so many tokens."""
    return DECODE if tokens == 1 else f"{_PREFILL}{tokens}"


def prefill_sizes(signatures: Iterable[str]) -> list[int]:
    """The tokens that each signature for prompts takes, the fewest first."""
    return sorted(int(name.removeprefix(_PREFILL)) for name in signatures if name.startswith(_PREFILL))


def cache_names(states: Iterable[State]) -> Mapping[str, str]:
    """What LiteRT-LM calls each cache, by edgec's name: keys and values, each counted from 0."""
    counters = {letter: count() for letter in _LETTERS.values()}
    letters = {state.buffer: _LETTERS[state.role] for state in states}
    return {name: f"{CACHE}{letter}_{next(counters[letter])}" for name, letter in letters.items()}
