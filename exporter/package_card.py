"""What a Core ML package says of the model that it holds, from the model's files and the request."""

from __future__ import annotations

import re

from edgec.backends.coreml.metadata import PackageCard
from edgec.exporter.sources.model_source import ModelSource
from edgec.installation import __version__

_HUB_ID = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_UNKNOWN = "not stated"


def package_card(source: ModelSource, recipe: str, layout: str, context: int | None) -> PackageCard:
    """The card of a package. Local paths stay out of it: an app is given to others.

    Args:
        source: the model.
        recipe: its name.
        layout: of the artifact.
        context: of a decoder.
    """
    name = hub_id(source)
    details = {
        "edgec_version": __version__,
        "edgec_recipe": recipe,
        "edgec_source": name or source.name,
        "edgec_layout": layout,
        **({"edgec_context": str(context)} if context else {}),
        # swift-transformers fetches the tokenizer of the model of this name, where an app gives none.
        **({"co.huggingface.exporters.name": name} if name else {}),
    }
    parameters = f"{sum(source.weight_sizes):,} parameters, recipe {recipe}"
    return PackageCard(
        author=name.split("/")[0] or _UNKNOWN,
        licence=source.licence or _UNKNOWN,
        version=source.revision or _UNKNOWN,
        description=f"{source.name}: {_kind(source)}, {parameters}. Made by edgec {__version__}.",
        details=details,
    )


def hub_id(source: ModelSource) -> str:
    """The model's name on the hub; empty where it did not come from there."""
    return source.source if source.revision and _HUB_ID.fullmatch(source.source) else ""


def _kind(source: ModelSource) -> str:
    family = str(source.config.get("model_type", ""))
    return " ".join(filter(None, [family, source.kind if source.kind != "module" else source.task or "model"]))
