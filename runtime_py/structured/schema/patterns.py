"""A pattern of JSON Schema in the engine's syntax: inside a class, ECMA-262 knows no nested ones and no operators."""

from __future__ import annotations

from typing import Final

_DOUBLED: Final = "&-~"


def portable(pattern: str) -> str:
    """The pattern with what only the engine would read as a nested class or an operator escaped."""
    out, place, inside = [], 0, False
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            out.append(pattern[place : place + 2])
            place += 2
            continue
        if not inside and char == "[":
            inside = True
            lead = "[^" if pattern.startswith("[^", place) else "["
            out.append(lead)
            place += len(lead)
            continue
        if inside and char == "]":
            inside = False
        doubled = char in _DOUBLED and pattern.startswith(char * 2, place)
        out.append(f"\\{char}" if inside and (char == "[" or doubled) else char)
        place += 1
    return "".join(out)
