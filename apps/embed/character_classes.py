"""Classes of the characters that a tokenizer's patterns tell apart, determined with the ``tokenizers`` library itself.

Phones differ in their regular expressions and Unicode versions. So every part of a pattern that matches one character
is tried on all characters here, and the app gets ranges: the same ids on every device, by construction.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Members = NDArray[np.bool_]
# Planes that hold characters, without the surrogates; empty planes are represented by the characters at their ends.
_FULL = (range(0xD800), range(0xE000, 0x40000), range(0xE0000, 0xF0000))
_EMPTY = tuple(plane << 16 | place for plane in (*range(4, 14), 15, 16) for place in (0, 0xFFFD, 0xFFFE, 0xFFFF))
_POINTS = np.array(sorted({*_EMPTY, *(point for points in _FULL for point in points)}), dtype=np.uint32)
_FAR = re.compile(r"\\x\{(?:0*[4-9a-fA-F][0-9a-fA-F]{4}|0*10[0-9a-fA-F]{4})\}")
_AT_ONCE = 60
# White space that BertNormalizer turns into spaces instead of dropping it.
_KEPT = "".join(filter(str.isspace, map(chr, {0x9, 0xA, 0xD, *range(0xA0, 0x3001)})))
_SYMBOLS = string.ascii_uppercase + string.ascii_lowercase + string.digits
# Where the symbols of further classes begin.
_BEYOND = 0x100 + len(_SYMBOLS)


@dataclass(frozen=True)
class Atom:
    """A set of characters that a pattern treats alike.

    Attributes:
        kind: ``character`` (itself), ``folded`` (a letter in any case), ``regex``, or one of the library's own tests:
            ``numeric``, ``punctuation``, ``space``, ``accent``, and BertNormalizer's ``nonspacing`` and ``unclean``.
        text: the character or the regular expression.
    """

    kind: str
    text: str = ""


@dataclass(frozen=True)
class Partition:
    """A partition of all characters into classes.

    Attributes:
        symbols: the classes inside each atom, one symbol per class.
        table: the first character of each range in hexadecimal followed by its class's symbol, joined by commas.
    """

    symbols: Mapping[Atom, str]
    table: str

    def expression(self, atom: Atom) -> str:
        """A regular expression that matches one symbol of the atom."""
        symbols = self.symbols[atom]
        return symbols if len(symbols) == 1 else f"[{symbols}]" if symbols else "(?!)"


def partition(atoms: Iterable[Atom]) -> Partition:
    """The coarsest partition in which every atom is a union of classes.

    Raises:
        ValueError: the library does not accept an atom.
    """
    known = {atom: members(atom) for atom in dict.fromkeys(atoms)}
    classes = _classes(list(known.values()))
    names = [*_SYMBOLS, *map(chr, range(_BEYOND, _BEYOND + int(classes.max()) + 1))]
    symbols = {atom: "".join(names[index] for index in np.unique(classes[inside])) for atom, inside in known.items()}
    starts = [0, *(np.flatnonzero(np.diff(classes)) + 1).tolist()] if known else []
    return Partition(symbols, ",".join(f"{_POINTS[start]:x}{names[classes[start]]}" for start in starts))


def _classes(sets: Sequence[Members]) -> NDArray[np.int64]:
    """A class number per character; two characters share it where no set tells them apart."""
    classes = np.zeros(len(_POINTS), dtype=np.int64)
    for begin in range(0, len(sets), _AT_ONCE):
        bits = sum((inside.astype(np.int64) << place for place, inside in enumerate(sets[begin : begin + _AT_ONCE])))
        together = np.unique(bits, return_inverse=True)[1].reshape(-1)
        classes = np.unique(classes * (int(together.max()) + 1) + together, return_inverse=True)[1].reshape(-1)
    return classes


@cache
def members(atom: Atom) -> Members:
    """Which of all characters are members of an atom.

    Raises:
        ValueError: the library does not accept it, or it names characters in planes that have none.
    """
    if atom.kind == "character":
        return _among(atom.text)
    if atom.kind == "folded":
        letters = _text(members(Atom("regex", "(?i:[a-zA-Z])")))
        return _among(letters) & ~_among(_remaining(Atom("regex", f"(?i:{atom.text})"), letters))
    return ~_among(_remaining(atom, all_characters()))


@cache
def all_characters() -> str:
    """A text of every character, in order."""
    return _text(np.ones(len(_POINTS), dtype=np.bool_))


def _text(inside: Members) -> str:
    return bytes(_POINTS[inside].astype("<u4").tobytes()).decode("utf-32-le")


def _among(characters: str) -> Members:
    points = np.frombuffer(characters.encode("utf-32-le"), dtype="<u4")
    inside = np.zeros(len(_POINTS), dtype=np.bool_)
    inside[np.searchsorted(_POINTS, points)] = True
    return inside


def _remaining(atom: Atom, text: str) -> str:
    """The text without an atom's characters."""
    from tokenizers import Regex, normalizers, pre_tokenizers

    if any(ord(character) > 0x3FFFF for character in atom.text) or _FAR.search(atom.text):
        raise ValueError(f"{atom.text!r} names characters in planes that have none")
    steps: Mapping[str, Callable[[], str]] = {
        "regex": lambda: str(normalizers.Replace(Regex(atom.text), "").normalize_str(text)),
        "space": lambda: _joined(pre_tokenizers.WhitespaceSplit(), text),
        "punctuation": lambda: _joined(pre_tokenizers.Punctuation(behavior="removed"), text),
        "accent": lambda: str(normalizers.StripAccents().normalize_str(text)),
        "nonspacing": lambda: str(normalizers.BertNormalizer(False, False, True, False).normalize_str(text)),
        "unclean": lambda: str(normalizers.BertNormalizer(True, False, False, False).normalize_str(text)) + _KEPT,
        "numeric": lambda: _first_kind(pre_tokenizers.Digits(individual_digits=False), text),
    }
    try:
        return steps[atom.kind]()
    except Exception as error:  # the library's errors have no class of their own
        raise ValueError(str(error)) from error


def _joined(step: object, text: str) -> str:
    return "".join(piece for piece, _ in step.pre_tokenize_str(text))  # type: ignore[attr-defined]


def _first_kind(step: object, text: str) -> str:
    """The parts of the first kind, joined; they alternate with the others, and the first one is not numeric."""
    return "".join(piece for piece, _ in step.pre_tokenize_str(text)[::2])  # type: ignore[attr-defined]


def character_map(change: Callable[[str], str]) -> str:
    """The table of a change that works character by character: ``FROM:TO.TO`` in hexadecimal, joined by commas.

    Args:
        change: changes a text; blocks of characters that it leaves as they are need no closer look.
    """
    text = all_characters()
    blocks = (text[start : start + 256] for start in range(0, len(text), 256))
    changed = (character for block in blocks if change(block) != block for character in block)
    pairs = ((character, change(character)) for character in changed)
    return ",".join(f"{ord(old):x}:{'.'.join(f'{ord(c):x}' for c in new)}" for old, new in pairs if new != old)
