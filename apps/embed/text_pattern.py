"""Translation of tokenizer.json's regular expressions (Oniguruma, Ruby syntax) into expressions over character classes.

What matches one character becomes an `Atom`; the rest is structure that every engine understands alike: alternatives,
groups, lookahead and lookbehind, repetition. Anything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgec.apps.embed.character_classes import Atom, Partition

PatternPart = str | Atom
PatternParts = tuple[PatternPart, ...]
_GROUPS = ("(?:", "(?=", "(?!", "(?<=", "(?<!")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b"}
_SHORTHAND = re.compile(r"\\(?:[sSdDwWhH]|[pP]\{\^?[A-Za-z_ ]+\})")
_CODE_POINT = re.compile(r"\\(?:x\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")
_REPEATED = re.compile(r"\{(\d+)?(,)?(\d+)?\}")
# Pairs of letters that are one character in another case ("st" is U+FB06), which no class of single ones can say.
_LIGATURES = {"ff", "fi", "fl", "ss", "st"}


class UnknownPattern(Exception):
    """A pattern holds something that the app's patterns do not support."""


def render(parts: PatternParts, partition: Partition) -> str:
    """The regular expression over the partition's symbols."""
    return "".join(part if isinstance(part, str) else partition.expression(part) for part in parts)


def atoms(parts: PatternParts) -> list[Atom]:
    """The sets of characters in a pattern, in order."""
    return [part for part in parts if isinstance(part, Atom)]


def translated(pattern: str) -> PatternParts:
    """Translate a pattern into structure and atoms.

    Raises:
        UnknownPattern: something in it is not supported.
    """
    reader = _Reader(pattern)
    parts = reader.alternatives(folded=False)
    if reader.rest:
        raise UnknownPattern(f"{reader.rest[:20]!r}")
    return parts


@dataclass
class _Reader:
    """A recursive descent parser for patterns; ``rest`` is what it has not read yet."""

    rest: str

    def take(self, text: str) -> bool:
        """Whether the rest begins with the text, which is then consumed."""
        present = self.rest.startswith(text)
        self.rest = self.rest[len(text) :] if present else self.rest
        return present

    def alternatives(self, folded: bool) -> PatternParts:
        parts: list[PatternPart] = [*self.sequence(folded)]
        while self.take("|"):
            parts += ["|", *self.sequence(folded)]
        return tuple(parts)

    def sequence(self, folded: bool) -> PatternParts:
        parts: list[PatternPart] = []
        while self.rest and self.rest[0] not in "|)":
            parts += self.quantified(self.item(folded))
        if folded:
            _check_ligatures(parts)
        return tuple(parts)

    def item(self, folded: bool) -> PatternParts:
        """One item that a quantifier may follow."""
        if self.rest[0] == "(":
            return self.group(folded)
        if self.rest[0] == "[":
            return (_set(self.bracket(), folded),)
        if self.take("^"):
            return ("(?:\\A|(?<=", Atom("character", "\n"), ")(?!\\z))")
        if self.take("$"):
            return ("(?:\\z|(?=", Atom("character", "\n"), "))")
        if self.take("."):
            return (_one(Atom("regex", "."), folded),)
        return (self.escaped(folded) if self.rest[0] == "\\" else self.literal(folded),)

    def group(self, folded: bool) -> PatternParts:
        opening = next((each for each in _GROUPS if self.take(each)), None)
        if opening is None and self.take("(?i:"):
            opening, folded = "(?:", True
        if opening is None and not self.rest.startswith("(?") and self.take("("):
            opening = "(?:"
        inside = self.alternatives(folded) if opening is not None else ()
        if opening is None or not self.take(")"):
            raise UnknownPattern(f"the group {self.rest[:20]!r}")
        return (opening, *inside, ")")

    def bracket(self) -> str:
        """A set in brackets, as written."""
        match = re.match(r"\[\^?(?:\[:\^?\w+:\]|\\[pPx]\{[^}]*\}|\\.|[^\]\\\[&]|&(?!&))+\]", self.rest, re.DOTALL)
        if match is None:
            raise UnknownPattern(f"the set {self.rest[:20]!r}")
        self.take(match[0])
        return match[0]

    def escaped(self, folded: bool) -> Atom:
        if shorthand := _SHORTHAND.match(self.rest):
            self.take(shorthand[0])
            return _one(Atom("regex", shorthand[0]), folded)
        if point := _CODE_POINT.match(self.rest):
            self.take(point[0])
            return _character(chr(int(point[1] or point[2] or point[3], 16)), folded)
        character = self.rest[1:2]
        if character in _ESCAPED or (character and not character.isalnum()):
            self.take(self.rest[:2])
            return _character(_ESCAPED.get(character, character), folded)
        raise UnknownPattern(f"{self.rest[:2]!r}")

    def literal(self, folded: bool) -> Atom:
        character = self.rest[0]
        if character in "*+?{":
            raise UnknownPattern(f"the repetition {self.rest[:20]!r}")
        self.take(character)
        return _character(character, folded)

    def quantified(self, item: PatternParts) -> PatternParts:
        """An item with its quantifier; Ruby's ``{n,m}+`` repeats the repetition, and is not possessive."""
        repeated = _REPEATED.match(self.rest)
        if repeated is None:
            sign = next((each for each in "?*+" if self.take(each)), "")
            follows = next((each for each in "?+" if self.take(each)), "") if sign else ""
            return (*item, sign + follows) if sign else item
        self.take(repeated[0])
        low, comma, high = repeated.groups()
        if not (low or high) or self.rest.startswith("?") or self.rest.startswith("*"):
            raise UnknownPattern(f"the repetition {repeated[0]}")
        if self.take("+"):
            if low != "1":
                raise UnknownPattern(f"the repetition {repeated[0]}+")
            return (*item, "+")
        return (*item, f"{{{low or 0}{comma or ''}{high or ''}}}")


def _character(character: str, folded: bool) -> Atom:
    if folded and character.isascii() and character.isalpha():
        return Atom("folded", character.lower())
    if folded and not character.isascii():
        raise UnknownPattern(f"{character!r} in any case")
    return Atom("character", character)


def _one(atom: Atom, folded: bool) -> Atom:
    if folded:
        raise UnknownPattern(f"{atom.text!r} in any case")
    return atom


def _set(written: str, folded: bool) -> Atom:
    """The atom of a set; case is ignored only in sets of plain letters, since others can match several characters."""
    if folded and not re.fullmatch(r"\[[A-Za-z]+\]", written):
        raise UnknownPattern(f"{written!r} in any case")
    return Atom("regex", f"(?i:{written})" if folded else written)


def _check_ligatures(parts: Sequence[PatternPart]) -> None:
    letters = "".join(part.text if isinstance(part, Atom) and part.kind == "folded" else " " for part in parts)
    pair = next((pair for pair in _LIGATURES if pair in letters), None)
    if pair is not None:
        raise UnknownPattern(f"{pair!r} in any case")
