"""Text from a manifest as Markdown that says exactly that text: none of it becomes a link, a picture or a heading."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_MOST: Final = 400
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# What Markdown, and GitHub's extension of it, give a meaning to anywhere in a line.
_MARKS = re.compile(r"[\\`*_{}\[\]#|~$!@]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_CODE = re.compile(r"[^`|]+")


def plain(text: str) -> str:
    """A text on one line, cut where it is very long, in which every mark stands for itself."""
    escaped = _MARKS.sub(r"\\\g<0>", on_one_line(text))
    return re.sub("[&<>]", lambda found: _ENTITIES[found[0]], escaped)


def code(text: str) -> str:
    """A name or path in the letters of code; one with marks that would end these is plain."""
    line = on_one_line(text)
    return f"`{line}`" if _CODE.fullmatch(line) else plain(text)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def on_one_line(text: str) -> str:
    """A text without line ends and letters that are not shown, cut where it is very long."""
    shown = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * _MOST]).split())
    return shown if len(shown) <= _MOST else f"{shown[:_MOST]}…"
