"""The templates of READMEs and their placeholders (``@@name@@``), and a module's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.swift_text import type_name

_PLACE = re.compile(r"@@([a-z_]+)@@")
SUFFIX = ".template"
READMES = Path(str(files(__package__))) / "readmes"


def load(folder: Path, name: str) -> str:
    """The text of a template in a folder, by its name without ``.template``."""
    return (folder / f"{name}{SUFFIX}").read_text(encoding="utf-8")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace all placeholders in one pass, so that a value that looks like a placeholder stays as it is.

    Raises:
        KeyError: a placeholder has no value.
    """
    return _PLACE.sub(lambda match: values[match[1]], text)


def module_name(facts: AppFacts) -> str:
    """The name of the module or project: the bundle's name in camel case."""
    return type_name(facts.manifest.name, "Model") + "Kit"
