"""A short way to the end of a structured text, so that it can be closed before its tokens run out.

The library knows which tokens may come next, not how far the end is. So the end is looked for: bytes that must come
are taken as they are; otherwise the token that most likely leads out, closing brackets first. Where the same choice
comes up again and again, a character is sought after which another one does, then a pair of characters after which the
text or its string may end; else the next candidate is taken. That finds an end of nearly every JSON Schema in few
tokens; it is not always the shortest, and where the end needs a certain longer word, none may be found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from copy import copy
from itertools import product
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from edgec.runtime_py.structured.engine import Matcher
from edgec.runtime_py.structured.vocabulary import Vocabulary

_CLOSERS: Final = re.compile(rb'"?[}\]]{2,4}|"[}\],:]')
_SINGLE: Final = b'}]"),:;>.0123456789-ntf' + bytes(range(0x61, 0x7B)) + bytes(range(0x41, 0x5B)) + b"_/@+ "
_WORD: Final = re.compile(rb"[a-z]{2,8}")
_MOST_WORDS, _PATIENCE = 64, 4


class Closer:
    """Finds ways to the end with one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        ids = vocabulary.ids
        joined = sorted((text for text in ids if _CLOSERS.fullmatch(text)), key=len, reverse=True)
        words = sorted((text for text in ids if _WORD.fullmatch(text)), key=len, reverse=True)[:_MOST_WORDS]
        leading = [bytes([byte]) for byte in dict.fromkeys(_SINGLE)]
        others = [bytes([byte]) for byte in range(256) if byte not in _SINGLE]
        letters = leading.index(b"n")
        self._ranked = self._numbers([*joined, *leading[:letters], *words, *leading[letters:], *others])
        # Where a letter and a bracket may both come, a string is open: then words, unless it can be closed.
        quoted = [text for text in joined if text.startswith(b'"')]
        self._inside = self._numbers([*quoted, b'"', *words, *leading[letters:], *leading[:letters], *others])
        self._string = self._numbers([b"a", b"}"])
        # Without the backslash: a quote after it closes nothing.
        plain = [bytes([byte]) for byte in range(0x20, 0x7F) if byte not in b'\\"']
        self._tried = [int(token) for token in self._numbers(plain)]
        self._quote = ids.get(b'"')
        self._exits: dict[tuple[int, ...], None] = {}

    def _numbers(self, texts: list[bytes]) -> NDArray[np.int64]:
        return np.array([self._vocabulary.ids[text] for text in texts if text in self._vocabulary.ids], dtype=np.int64)

    def hinted(self, texts: Sequence[bytes]) -> Self:
        """The same with texts that may lead out of a string where nothing else does."""
        other = copy(self)
        other._exits = {tuple(self._vocabulary.spelled(text)): None for text in texts}
        return other

    def find_way_out(self, matcher: Matcher, limit: int) -> list[int] | None:
        """Tokens that make the text whole, at most ``limit``; None where they were not found."""
        place, out, met = matcher.fork(), list[int](), Counter[bytes]()
        while not place.accepting:
            if len(out) >= limit:
                return None
            spelled = self._vocabulary.spelled(place.forced())
            taken = place.consume(spelled) if spelled else 0
            out += spelled[:taken]
            if taken:
                continue
            packed = place.packed()
            met[packed.tobytes()] += 1
            stuck = met[packed.tobytes()]
            token = self._candidate(packed, stuck // _PATIENCE)
            step = (self._turn(place, met) or self._exit(place)) if stuck == _PATIENCE else ()
            step = step or (() if token is None else (token,))
            if not step or place.consume(step) < len(step):
                return None
            out += step
        return out if len(out) <= limit else None

    def _candidate(self, packed: NDArray[np.uint32], turn: int) -> int | None:
        ranked = self._inside if len(_open(self._string, packed)) > 1 else self._ranked
        open_ones = _open(ranked, packed)
        if not open_ones.size:
            bits = np.unpackbits(packed.view(np.uint8), bitorder="little")[: len(self._vocabulary.tokens)]
            open_ones = np.flatnonzero(bits)
        return int(open_ones[turn % open_ones.size]) if open_ones.size else None

    def _turn(self, place: Matcher, met: Counter[bytes]) -> tuple[int, ...]:
        """A character after which another choice comes up than those met before, or none."""
        for token in self._tried:
            after = place.fork()
            if after.consume([token]) and (after.accepting or after.packed().tobytes() not in met):
                return (token,)
        return ()

    def _exit(self, place: Matcher) -> tuple[int, ...]:
        """A hint, or one or two characters, after which the text, or the string that is open, may end."""
        for step in (*self._exits, *product(self._tried, repeat=1), *product(self._tried, repeat=2)):
            ahead = step if self._quote is None else (*step, self._quote)
            fits = place.count_fitting(ahead)
            if fits == len(ahead) or (fits >= len(step) and self._accepts(place, step)):
                self._exits[step] = None
                return step
        return ()

    @staticmethod
    def _accepts(place: Matcher, step: tuple[int, ...]) -> bool:
        after = place.fork()
        after.consume(step)
        return after.accepting


def _open(ids: NDArray[np.int64], packed: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Those of some tokens whose bit is set."""
    result: NDArray[np.int64] = ids[(packed[ids >> 5] >> (ids & 31).astype(np.uint32)) & 1 == 1]
    return result
