"""Values as Swift source, escaped so that nothing in a manifest can break out of its literal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

_PLAIN = re.compile(r"[A-Za-z0-9 _.,:;/+*=()<>\[\]{}@#%&!?^~|$'-]")


def string(text: str) -> str:
    r"""A Swift string literal; everything but plain ASCII becomes ``\u{...}``, lone surrogates U+FFFD."""
    return '"' + "".join(_character(character) for character in text) + '"'


def _character(character: str) -> str:
    if _PLAIN.fullmatch(character):
        return character
    point = ord(character)
    return f"\\u{{{0xFFFD if 0xD800 <= point <= 0xDFFF else point:X}}}"


def optional(text: str | None) -> str:
    """A string literal, or ``nil``."""
    return "nil" if text is None else string(text)


def boolean(value: bool) -> str:
    """A Swift boolean literal."""
    return "true" if value else "false"


def identifier(text: str, fallback: str) -> str:
    """A lower camel-case identifier from any text; ``fallback`` where nothing of the text can be used."""
    words = re.findall(r"[A-Za-z0-9]+", text)
    name = "".join([word.lower() if i == 0 else word[:1].upper() + word[1:] for i, word in enumerate(words)])
    if not name or name[0].isdigit():
        name = fallback + name
    return f"{name}Value" if name in _keywords() else name


@cache
def _keywords() -> frozenset[str]:
    return frozenset((files(__package__) / "swift_keywords.txt").read_text(encoding="utf-8").split())


def type_name(text: str, fallback: str) -> str:
    """An upper camel-case name of at most 48 characters from any text."""
    words = re.findall(r"[A-Za-z0-9]+", text)
    name = "".join(word[:1].upper() + word[1:] for word in words)[:48]
    return name if name and not name[0].isdigit() else fallback + name


def unique(names: Sequence[str]) -> list[str]:
    """The same names, with a number after each one that occurred before."""
    seen: set[str] = set()
    chosen = []
    for name in names:
        candidates = (name if count == 1 else f"{name}{count}" for count in range(1, len(names) + 2))
        free = next(candidate for candidate in candidates if candidate not in seen)
        seen.add(free)
        chosen.append(free)
    return chosen
