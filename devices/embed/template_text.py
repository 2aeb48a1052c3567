"""Filling a template: every placeholder must be given, and every value must have a place somewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

_PLACE = re.compile(r"@@([a-z_]+)@@")
SUFFIX = ".template"


def load(package: str, name: str) -> str:
    """A template of a package by its name without ``.template``."""
    return (files(package) / f"{name}{SUFFIX}").read_text(encoding="utf-8")


def places(text: str) -> frozenset[str]:
    """The names of a template's placeholders."""
    return frozenset(_PLACE.findall(text))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in their places, in one pass: a value that looks like a placeholder stays as it is.

    Raises:
        KeyError: a placeholder has no value.
    """
    return _PLACE.sub(lambda found: values[found[1]], text)
