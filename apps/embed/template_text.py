"""Loading templates and filling in their placeholders (``@@name@@``); those that Swift and Kotlin share."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.number_text import integer
from edgec.apps.embed.swift_text import type_name

_PLACE = re.compile(r"@@([a-z_]+)@@")
SUFFIX = ".template"
READMES = Path(str(files(__package__))) / "readmes"


def load(folder: Path, name: str) -> str:
    """The text of a template in a folder, by its name without ``.template``."""
    return (folder / f"{name}{SUFFIX}").read_text(encoding="utf-8")


def places(text: str) -> frozenset[str]:
    """The names of the placeholders in a template."""
    return frozenset(_PLACE.findall(text))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace all placeholders in one pass, so that a value that looks like a placeholder stays as it is.

    Raises:
        KeyError: a placeholder has no value.
    """
    return _PLACE.sub(lambda match: values[match[1]], text)


def module_name(facts: AppFacts) -> str:
    """The name of the module or project: the bundle's name in camel case."""
    return type_name(facts.manifest.name, "Model") + "Kit"


def manifest_values(facts: AppFacts, bundle_folder: str, string: Callable[[str], str]) -> Mapping[str, str]:
    """The manifest's values as source code.

    Args:
        facts: about the bundle.
        bundle_folder: where the app finds the bundle.
        string: writes a string literal of the language.
    """
    manifest = facts.manifest
    revision = f"@{manifest.model.revision}" if manifest.model.revision else ""
    return {
        "module": module_name(facts),
        "name": string(manifest.name),
        "digest": string(manifest.digest),
        "recipe": string(manifest.recipe_name),
        "target": string(manifest.target),
        "model": string(f"{manifest.model.name}{revision}"),
        "parameters": integer("parameters", manifest.model.parameters),
        "format": string(str(manifest.format)),
        "artifact": string(manifest.artifact.rstrip("/")),
        "artifact_bytes": integer(manifest.artifact, facts.artifact_bytes),
        "runtime": string(manifest.runtime.name),
        "runtime_version": string(manifest.runtime.version),
        "needed_bytes": integer("needed_bytes", facts.needed_bytes),
        "weight_copies": str(facts.weight_copies),
        "bundle_folder": string(bundle_folder),
        "key_der": string(b64encode(facts.key.der).decode() if facts.key else ""),
        "key_fingerprint": string(facts.key.fingerprint if facts.key else ""),
        "system_prompt_file": string(manifest.prefix.text if manifest.prefix else ""),
    }
