"""Values as Kotlin source, escaped so that nothing in a manifest can break out of its literal."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9 _.,:;/+*=()<>\[\]{}@#%&!?^~|'-]")


def string(text: str) -> str:
    r"""A Kotlin string literal; everything but plain ASCII becomes ``\uXXXX`` (UTF-16), lone surrogates U+FFFD."""
    return '"' + "".join(_character(character) for character in text) + '"'


def _character(character: str) -> str:
    if _PLAIN.fullmatch(character):
        return character
    units = character.encode("utf-16-be") if not 0xD800 <= ord(character) <= 0xDFFF else b"\xff\xfd"
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))


def package_name(text: str) -> str:
    """The Kotlin package for a bundle's name."""
    name = "".join(re.findall(r"[a-z0-9]+", text.lower()))[:40]
    return f"dev.edgec.{name if name and not name[0].isdigit() else f'model{name}'}"
