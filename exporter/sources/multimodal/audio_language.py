"""Speech-language models among transformers' models: whether edgec knows their audio, and how they are asked.

No family is named. Transformers says which class prepares the sounds of a model, and which arguments its own function
for the rows of a sound takes; a model that says both in a way that is known here has audio.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from torch import Tensor

from edgec.errors import InputError
from edgec.exporter.sources.multimodal.vision_families import Family

TASK = "audio-text-to-text"
EXTRACTOR = "WhisperFeatureExtractor"
"""The class whose features edgec makes itself."""
# Arguments that the model's own function for the rows of a sound may take beside the features, and its forward.
_MASKS = ("input_features_mask", "feature_attention_mask")


def audio_rows(model: Any, given: Mapping[str, Any]) -> Tensor:
    """The rows of one window, [T, hidden], those of silence too.

    Args:
        model: that generates.
        given: ``features`` [1, mels, frames]; ``mask`` bool [1, frames], true for frames of sound; ``keys``, what its
            encoder takes as mask of its attention.
    """
    base = model.base_model
    if hasattr(base, "get_audio_features"):
        taken = signature(base.get_audio_features).parameters
        masks = {name: given["mask"] for name in _MASKS if name in taken}
        rows: Tensor = base.get_audio_features(given["features"], **masks, return_dict=True).pooler_output
    else:
        states = model.get_encoder("audio")(given["features"], attention_mask=given["keys"]).last_hidden_state
        rows = base.multi_modal_projector(states)
    return rows.flatten(0, -2)


AUDIO = Family(audio_rows)
"""How every speech-language model is asked: its encoder by ``audio_rows``, its decoder as any with causal order."""


def mask_name(model: Any) -> str | None:
    """The argument of a model that says which frames are sound; None where it takes none."""
    taken = signature(model.base_model.forward).parameters
    return next((name for name in _MASKS if name in taken), None)


def is_audio_language(config: Any) -> bool:
    """Whether edgec knows the audio of this model, and transformers generates text with them."""
    return not _why_no_audio(config)


def refuse_unknown_audio(config: Any, folder: Path) -> None:
    """Refuse a model that answers about sound in a way that edgec cannot export.

    Raises:
        InputError: E751.
    """
    why = _why_no_audio(config)
    if why:
        raise unknown_audio(config.model_type, str(folder), why)


def unknown_audio(family: str, where: str, why: str) -> InputError:
    """The error E751 for a model that answers about sound in a way that edgec does not know."""
    return InputError(
        f"edgec cannot export the audio of {family!r}.",
        where=where,
        why=why,
        fix="export its text part with --task text-generation, where transformers has one",
        code="E751",
    )


def generating_audio_class() -> Any:
    """The Auto class of the models that answer about sound."""
    from transformers import AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM


def _why_no_audio(config: Any) -> str:
    """Why a model is not one whose audio edgec knows; empty where it is."""
    from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING_NAMES

    known = generating_audio_class()._model_mapping
    if type(config) not in known:
        return "transformers has no class for it that answers about sound"
    extractor = FEATURE_EXTRACTOR_MAPPING_NAMES.get(config.model_type) or "a class that transformers does not name"
    if extractor != EXTRACTOR:
        return f"its sounds are prepared by {extractor}, and edgec makes the features of {EXTRACTOR}"
    return _why_untold(config) if getattr(config, "audio_config", None) is not None else "it has no audio_config"


def _why_untold(config: Any) -> str:
    """Why the model's own functions cannot be asked for the rows of a sound."""
    from transformers import AutoModel

    base = AutoModel._model_mapping.get(type(config), None)
    if base is None:
        return "transformers has no class of it that is asked for rows of a sound"
    asked = getattr(base, "get_audio_features", None)
    taken = signature(asked or base.forward).parameters
    needed = [
        name
        for name, each in taken.items()
        if asked and each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    others = [name for name in needed if name not in ("self", "input_features", *_MASKS)]
    if others or "input_features" not in taken:
        return f"its rows of a sound depend on {', '.join(others) or 'something else than features'}"
    return "" if asked or any(name in taken for name in _MASKS) else "it does not say how it makes rows of a sound"
