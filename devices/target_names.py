"""Names of targets as people write them (``Galaxy S24 Ultra``, ``iphone 15pro``), and the nearest known ones.

A name means a target where both are the same letters and digits, with or without the maker. The name in shops counts
too; ``5G`` in it is never dropped, since phones with and without it have different chips.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

_MAKERS = ("apple", "google", "motorola", "oppo", "poco", "samsung", "vivo", "xiaomi")
"""First words that a target's name may lack, or have where people leave them out."""

_LINES = ("galaxy", "motorola", "oppo", "vivo")
"""First words of targets that people leave out."""

_OFFERED = 4
_LONGEST = 60
"""Characters of the longest name that is compared; no target has so many."""


def meant(name: str, known: Iterable[str], sold_as: Mapping[str, str]) -> str | None:
    """The known name that a name means, or None.

    Args:
        name: as the user wrote it, in any case and with any signs between letters and digits.
        known: names of targets.
        sold_as: what a phone is called in shops -> its target's name.
    """
    if len(name) > _LONGEST:
        return None
    joined = {_joined(words): target for shop, target in sold_as.items() for words in _with_or_without_maker(shop)}
    joined |= {_joined(_words(each)): each for each in known}
    return next((joined[form] for form in _forms(name) if form in joined), None)


def variants(name: str, phones: Iterable[str]) -> list[str]:
    """The phones of one name that are sold with several chips: ``galaxy-s24-exynos``, ``galaxy-s24-snapdragon``."""
    if len(name) > _LONGEST:
        return []
    forms = set(_forms(name))
    return [phone for phone in phones if _joined(_words(phone)[:-1]) in forms and _words(phone)[-1] in _CHIP_WORDS]


_CHIP_WORDS = ("dimensity", "exynos", "snapdragon")


def nearest(name: str, short: Sequence[str], every: Sequence[str]) -> list[str]:
    """The known names that are most like a name, at most four.

    Args:
        name: as the user wrote it.
        short: names of phones and aliases.
        every: also those with a unit or a format.
    """
    told = re.sub(r"[^a-z0-9]+", "-", name[:_LONGEST].lower().replace("+", "-plus")).strip("-")
    alike = [
        *(each for each in short if told and each.startswith(f"{told}-")),
        *difflib.get_close_matches(told, short, n=_OFFERED, cutoff=0.7),
        *difflib.get_close_matches(told, every, n=2, cutoff=0.85),
        *difflib.get_close_matches(told, short, n=_OFFERED, cutoff=0.45),
    ]
    return list(dict.fromkeys(alike))[:_OFFERED]


def same_words(known: Iterable[str]) -> Mapping[str, list[str]]:
    """Names that cannot be told apart, by their letters and digits; empty where all can."""
    groups: dict[str, list[str]] = {}
    for name in known:
        groups.setdefault(_joined(_words(name)), []).append(name)
    return {joined: names for joined, names in groups.items() if len(names) > 1}


def _forms(name: str) -> Iterator[str]:
    """What a name may be once its signs are gone, the most literal first; digits alone mean nothing."""
    words, bare = _with_or_without_maker(name)
    for chosen, telling in ((words, words), (bare, bare), *(([line, *bare], bare) for line in _LINES)):
        if any(not word.isdigit() for word in telling):
            yield _joined(chosen)


def _with_or_without_maker(name: str) -> tuple[list[str], list[str]]:
    words = _words(name)
    return words, words[1:] if words[:1] and words[0] in _MAKERS else words


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+[a-z]*", name.lower().replace("+", " plus "))


def _joined(words: Iterable[str]) -> str:
    return "".join(words)
