"""Loading templates and filling in their placeholders (``@@name@@``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

_PLACE = re.compile(r"@@([a-z_]+)@@")
SUFFIX = ".template"


def load(package: str, name: str) -> str:
    """The text of a package's template, by its name without ``.template``."""
    return (files(package) / f"{name}{SUFFIX}").read_text(encoding="utf-8")


def places(text: str) -> frozenset[str]:
    """The names of the placeholders in a template."""
    return frozenset(_PLACE.findall(text))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace all placeholders in one pass, so that a value that looks like a placeholder stays as it is.

    Raises:
        KeyError: a placeholder has no value.
    """
    return _PLACE.sub(lambda match: values[match[1]], text)
