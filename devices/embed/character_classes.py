"""Which characters a tokenizer's patterns tell apart, asked of the ``tokenizers`` library itself.

A phone's regular expressions and its version of Unicode are its own. So every part of a pattern that matches one
character is tried on all characters here, and the app gets ranges: the same ids on every device, by construction.
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
# Planes that hold characters, without the surrogates; of those without any, both ends stand for what lies between.
_FULL = (range(0xD800), range(0xE000, 0x40000), range(0xE0000, 0xF0000))
_EMPTY = tuple(plane << 16 | place for plane in (*range(4, 14), 15, 16) for place in (0, 0xFFFD, 0xFFFE, 0xFFFF))
_POINTS = np.array(sorted({*_EMPTY, *(point for points in _FULL for point in points)}), dtype=np.uint32)
_FAR = re.compile(r"\\x\{(?:0*[4-9a-fA-F][0-9a-fA-F]{4}|0*10[0-9a-fA-F]{4})\}")
_AT_ONCE = 60
# White space that BertNormalizer makes spaces of instead of dropping it.
_KEPT = "".join(filter(str.isspace, map(chr, {0x9, 0xA, 0xD, *range(0xA0, 0x3001)})))
_SYMBOLS = string.ascii_uppercase + string.ascii_lowercase + string.digits


@dataclass(frozen=True)
class Atom:
    """A set of characters.

    Attributes:
        kind: ``character`` (itself), ``folded`` (a letter in any case), ``regex``, or a test of the library's own:
            ``numeric``, ``punctuation``, ``space``, ``accent``, and BertNormalizer's ``nonspacing`` and ``unclean``.
        text: the character or the regular expression.
    """

    kind: str
    text: str = ""


@dataclass(frozen=True)
class Partition:
    """Every character's class.

    Attributes:
        symbols: the classes inside each atom, one character per class.
        table: ``START SYMBOL`` in hexadecimal per range of characters, joined by commas.
    """

    symbols: Mapping[Atom, str]
    table: str

    def expression(self, atom: Atom) -> str:
        """A regular expression for one symbol of the atom."""
        found = self.symbols[atom]
        return found if len(found) == 1 else f"[{found}]" if found else "(?!)"


def partition(atoms: Iterable[Atom]) -> Partition:
    """The coarsest classes from which every atom can be put together.

    Raises:
        ValueError: the library does not accept an atom.
    """
    known = {atom: members(atom) for atom in dict.fromkeys(atoms)}
    classes = _classes(list(known.values()))
    names = [_symbol(index) for index in range(int(classes.max()) + 1)]
    symbols = {atom: "".join(names[index] for index in np.unique(classes[inside])) for atom, inside in known.items()}
    starts = [0, *(np.flatnonzero(np.diff(classes)) + 1).tolist()] if known else []
    return Partition(symbols, ",".join(f"{_POINTS[start]:x}{names[classes[start]]}" for start in starts))


def _classes(sets: Sequence[Members]) -> NDArray[np.int64]:
    """A number per character, the same where no set tells two apart."""
    classes = np.zeros(len(_POINTS), dtype=np.int64)
    for begin in range(0, len(sets), _AT_ONCE):
        bits = sum((inside.astype(np.int64) << place for place, inside in enumerate(sets[begin : begin + _AT_ONCE])))
        together = np.unique(bits, return_inverse=True)[1].reshape(-1)
        classes = np.unique(classes * (int(together.max()) + 1) + together, return_inverse=True)[1].reshape(-1)
    return classes


def _symbol(index: int) -> str:
    return _SYMBOLS[index] if index < len(_SYMBOLS) else chr(0x100 + index)


@cache
def members(atom: Atom) -> Members:
    """Which of all characters are in an atom.

    Raises:
        ValueError: the library does not accept it, or it names characters of planes that have none.
    """
    if atom.kind == "character":
        return _among(atom.text)
    if atom.kind == "folded":
        letters = _text(members(Atom("regex", "(?i:[a-zA-Z])")))
        return _among(letters) & ~_among(_remaining(Atom("regex", f"(?i:{atom.text})"), letters))
    return ~_among(_remaining(atom, all_characters()))


@cache
def all_characters() -> str:
    """Every character, in order."""
    return _text(np.ones(len(_POINTS), dtype=np.bool_))


def _text(inside: Members) -> str:
    return bytes(_POINTS[inside].astype("<u4").tobytes()).decode("utf-32-le")


def _among(characters: str) -> Members:
    points = np.frombuffer(characters.encode("utf-32-le"), dtype="<u4")
    found = np.zeros(len(_POINTS), dtype=np.bool_)
    found[np.searchsorted(_POINTS, points)] = True
    return found


def _remaining(atom: Atom, text: str) -> str:
    """What is left of a text without an atom's characters."""
    from tokenizers import Regex, normalizers, pre_tokenizers

    if any(ord(character) > 0x3FFFF for character in atom.text) or _FAR.search(atom.text):
        raise ValueError(f"{atom.text!r} names characters of planes that have none")
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
    """Every other part: they alternate, and the first one is not numeric."""
    return "".join(piece for piece, _ in step.pre_tokenize_str(text)[::2])  # type: ignore[attr-defined]


def character_map(change: Callable[[str], str]) -> str:
    """A change that looks at one character at a time, as ``FROM:TO.TO`` in hexadecimal, joined by commas.

    Args:
        change: of a text; blocks that stay as they are need no further look.
    """
    text = all_characters()
    blocks = (text[start : start + 256] for start in range(0, len(text), 256))
    changed = (character for block in blocks if change(block) != block for character in block)
    pairs = ((character, change(character)) for character in changed)
    return ",".join(f"{ord(old):x}:{'.'.join(f'{ord(c):x}' for c in new)}" for old, new in pairs if new != old)
