"""The constants by which an app's code names the schemas of its bundle."""

from __future__ import annotations

import re

from edgec.apps.embed import kotlin_text, swift_text
from edgec.apps.embed.app_facts import AppFacts


def swift_schemas(facts: AppFacts) -> str:
    """Lines that declare the constants of `ModelSchema`; none where the app's runtime holds no text to a schema."""
    names = _names(facts)
    constants = swift_text.unique([swift_text.identifier(" ".join(_words(name)), "schema") for name in names])
    return "".join(
        f"\n\n    /// `schemas/{name}.json` of the bundle.\n"
        f"    public static let {constant} = ModelSchema({swift_text.string(name)})"
        for constant, name in zip(constants, names, strict=True)
    )


def kotlin_schemas(facts: AppFacts) -> str:
    """Lines that declare the constants of `Schemas`; none where the app's runtime holds no text to a schema."""
    names = _names(facts)
    constants = swift_text.unique(["_".join(_words(name)).upper() for name in names])
    return "".join(
        f"\n    /** `schemas/{name}.json` of the bundle. */\n"
        f"    val {constant} = ModelSchema({kotlin_text.string(name)})"
        for constant, name in zip(constants, names, strict=True)
    )


def first_constant(lines: str) -> str:
    """The name of the first constant in such lines, for an example."""
    return str(re.findall(r"\b(?:let|val) (\w+) =", lines)[0])


def _names(facts: AppFacts) -> list[str]:
    return list(facts.manifest.schemas) if facts.own_kernels else []


def _words(name: str) -> list[str]:
    """The words of a name; one begins at every capital letter after a small one."""
    return re.findall(r"[A-Za-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name))
