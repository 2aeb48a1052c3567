"""The header of a model card: what the hub indexes, as YAML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from edgec.bundle.manifest import Manifest
from edgec.errors import InputError

_HUB_SOURCE = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)
_FORMAT_TAGS: Final = {"pte": "executorch", "mlpackage": "coreml", "aimodel": "coreai", "qnn": "qnn"}


def header(manifest: Manifest, base_model: str | None) -> str:
    """The card's header, with the dashes around it."""
    import yaml

    text: str = yaml.safe_dump(_fields(manifest, base_model), sort_keys=False, allow_unicode=False)
    return f"---\n{text}---\n"


def base_of(manifest: Manifest, given: str | None) -> str | None:
    """The hub's id of the model that a bundle was made from: the one given, else the source where it lay on the hub.

    A folder may be named like an id; what came from the hub has a commit.

    Raises:
        InputError: E873, the one given is not an id.
    """
    if given is not None:
        if _HUB_SOURCE.fullmatch(given) is None:
            fix = "write OWNER/NAME of the model on the hub, or leave it out"
            raise InputError("This is not an id on the hub.", "--base-model", repr(given)[:120], fix, "E873")
        return given
    source = manifest.model.source
    return source if manifest.model.revision and _HUB_SOURCE.fullmatch(source) else None


@cache
def _hub_words() -> Mapping[str, Any]:
    return tomllib.loads((Path(__file__).parent / "hub_words.toml").read_text(encoding="utf-8"))


def _fields(manifest: Manifest, base_model: str | None) -> dict[str, Any]:
    model = manifest.model
    fields: dict[str, Any] = {"library_name": "edgec"}
    if base_model is not None:
        fields |= {"base_model": base_model, "base_model_relation": "quantized"}
    if model.licence:
        known = model.licence.lower() in _hub_words()["licences"]
        named = {"license": "other", "license_name": slug(model.licence)}
        fields |= {"license": model.licence.lower()} if known else named
    if pipeline := _hub_words()["pipelines"].get(model.task):
        fields["pipeline_tag"] = pipeline
    form = _FORMAT_TAGS.get(manifest.format, manifest.format)
    fields["tags"] = list(dict.fromkeys(("edgec", "on-device", form, *map(slug, (manifest.recipe_name, model.family)))))
    return fields


def slug(text: str) -> str:
    """A text in the small letters, digits and hyphens that tags consist of."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:60] or "unnamed"
