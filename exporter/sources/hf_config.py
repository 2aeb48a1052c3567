"""From config.json to a transformers config and the kind of model, without weights."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from edgec.bundle.limited_json import first_fault
from edgec.errors import InputError
from edgec.exporter.sources.encoders.encoder_decoder import SPEECH_TASK, TASKS, is_encoder_decoder
from edgec.exporter.sources.multimodal.audio_language import TASK as HEARING_TASK
from edgec.exporter.sources.multimodal.audio_language import is_audio_language
from edgec.exporter.sources.multimodal.vision_language import TASK as SEEING_TASK
from edgec.exporter.sources.multimodal.vision_language import is_vision_language

DECODER = "decoder"
MODULE = "module"
ENCODER_DECODER = "encoder-decoder"
VISION_LANGUAGE = "vision-language"
AUDIO_LANGUAGE = "audio-language"
_DECODER_SUFFIXES = ("ForCausalLM", "LMHeadModel")
_SEQUENCE_SUFFIXES = ("ForConditionalGeneration", "MTModel")
_SEQUENCE_TASKS = (*TASKS, SPEECH_TASK)
_DECODER_TASKS = ("text-generation", "text-generation-with-past", "causal-lm", "causal-lm-with-past")
# Larger than any published model; beyond it a config is a mistake that would keep the compiler busy forever.
_LARGEST = {
    "num_hidden_layers": 2_000,
    "hidden_size": 1_000_000,
    "vocab_size": 100_000_000,
    "num_attention_heads": 10_000,
    "num_key_value_heads": 10_000,
    "intermediate_size": 10_000_000,
}
# Kinds of models of images or audio, their tasks, and how they are known.
_SENSES = ((VISION_LANGUAGE, SEEING_TASK, is_vision_language), (AUDIO_LANGUAGE, HEARING_TASK, is_audio_language))
_TAGS = ("Infinity", "-Infinity", "NaN")
# The same counts under the names that different families use, in nested configs too; vision_feature_layer is a place.
_COUNTS = ((re.compile(r"(?<!feature_)layers?$|^depths?$"), 2_000), (re.compile(r"experts$|heads?$"), 10_000))


class _Stated(BaseModel):
    """What edgec itself reads from config.json; transformers' config classes validate the rest."""

    architectures: list[str] | None = None
    auto_map: dict[str, Any] | None = None
    text_config: dict[str, Any] | None = None


def load_config(folder: Path, raw: Mapping[str, Any], *, trust_remote_code: bool = False) -> Any:
    """The transformers config of a model folder.

    Raises:
        InputError: E109 (transformers does not know the architecture) or E111 (a value is invalid).
    """
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    _check_stated(folder, raw)
    _check_sizes(folder, raw)
    model_type = raw.get("model_type")
    known = isinstance(model_type, str) and model_type in CONFIG_MAPPING
    remote = trust_remote_code and "auto_map" in raw
    if not known and not remote:
        raise _unknown(folder, raw)
    try:
        if remote:
            return AutoConfig.from_pretrained(folder, trust_remote_code=True)
        return CONFIG_MAPPING[str(model_type)].from_dict(_finite_tags(raw))
    except Exception as error:  # Each config class validates in its own way.
        raise bad_config(folder, error) from error


def plain_config(config: Any) -> dict[str, Any]:
    """A config as plain data, with each value under its common name too.

    Families use other names (``n_layer``), which ``attribute_map`` translates; infinity is a tagged object. Kinds of
    layers are included where a family derives them.

    Raises:
        InputError: E111, it holds something other than plain data.
    """
    try:
        plain: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise bad_config(Path(config.name_or_path or "config.json"), error) from error
    names = getattr(config, "attribute_map", None) or {}
    return {**_derived(config), **{common: plain[own] for common, own in names.items() if own in plain}, **plain}


def _derived(config: Any) -> dict[str, Any]:
    """What a family computes from other values: its layers' number and kinds; without heads none has attention."""
    kinds, layers = getattr(config, "layer_types", None), getattr(config, "num_hidden_layers", None)
    derived: dict[str, Any] = {"num_hidden_layers": layers} if isinstance(layers, int) else {}
    if isinstance(kinds, list | tuple):
        return {**derived, "layer_types": [str(kind) for kind in kinds]}
    if not isinstance(layers, int) or hasattr(config, "num_attention_heads"):
        return derived
    return {**derived, "layer_types": ["linear_attention"] * layers}


def kind_of(config: Any, task: str | None) -> str:
    """The kind of a model: ``decoder``, ``encoder-decoder``, ``vision-language``, ``audio-language`` or ``module``.

    It comes from the task if that is given, else from the config's architectures.

    Args:
        config: a transformers config.
        task: one of optimum's task names, or None.
    """
    for kind, own, known in _SENSES:
        if task in (None, own) and known(config):
            return kind
    if task is not None:
        generates = task in _SEQUENCE_TASKS and is_encoder_decoder(config)
        return ENCODER_DECODER if generates else DECODER if task in _DECODER_TASKS else MODULE
    name = next(iter(config.architectures or ()), None)
    if is_encoder_decoder(config) and (name is None or name.endswith(_SEQUENCE_SUFFIXES)):
        return ENCODER_DECODER
    if name is None:
        return DECODER if _is_causal_type(config.model_type) else MODULE
    if name.endswith(_DECODER_SUFFIXES) or _is_causal_class(name):
        return DECODER
    multimodal = name.endswith("ForConditionalGeneration") and getattr(config, "text_config", None) is not None
    return DECODER if multimodal else MODULE


def decoder_config(folder: Path, config: Any) -> Any:
    """The config of the text-only decoder (the nested text config of a multimodal model).

    The whole model's config has the last word on a shared lm_head, which its checkpoint then lacks.

    Raises:
        InputError: E109, transformers has no text-only decoder for it.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    text = config.get_text_config(decoder=True)
    if text is not config and getattr(config, "tie_word_embeddings", False):
        text.tie_word_embeddings = True
    if type(text) not in MODEL_FOR_CAUSAL_LM_MAPPING and "AutoModelForCausalLM" not in getattr(text, "auto_map", {}):
        raise InputError(
            what=f"The architecture {text.model_type!r} has no text-only decoder in transformers.",
            where=str(folder),
            why=f"AutoModelForCausalLM does not know {type(text).__name__}",
            fix="Pass --task for a non-decoder model, or write a factory: MODEL = package.module:factory.",
            code="E109",
        )
    return text


def bad_config(folder: Path, error: Exception | str) -> InputError:
    """The error for a config that no model can be built from."""
    reason = " ".join(str(error).split()) or repr(error)
    return InputError(
        what="config.json does not describe a model that can be built.",
        where=str(folder),
        why=reason[:400],
        fix="Correct the value, or copy config.json from the model's repository again.",
        code="E111",
    )


def _is_causal_type(model_type: str) -> bool:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    return model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES


def _is_causal_class(name: str) -> bool:
    """Whether transformers generates text with this class alone, whatever its name ends with."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values() and not name.endswith("ForConditionalGeneration")


def _check_stated(folder: Path, raw: Mapping[str, Any]) -> None:
    try:
        _Stated.model_validate(raw)
    except ValidationError as error:
        raise bad_config(folder, first_fault(error)) from error


def _check_sizes(folder: Path, raw: Mapping[str, Any]) -> None:
    """Refuse sizes that would keep transformers busy forever, before its classes see them."""
    for level in _levels(raw):
        for name, value in level.items():
            largest = _LARGEST.get(name, next((most for pattern, most in _COUNTS if pattern.search(name)), None))
            least = 1 if name in _LARGEST else 0
            if largest is not None and isinstance(value, int) and not least <= value <= largest:
                raise bad_config(folder, f"{name} is {value}, which is outside {least}..{largest}")


def _levels(raw: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A config and the configs nested in it."""
    yield raw
    for value in raw.values():
        if isinstance(value, Mapping):
            yield from _levels(value)


def _finite_tags(value: Any) -> Any:
    """Infinity and NaN as transformers 5 tags them, as numbers; a copy that config classes may change."""
    if isinstance(value, Mapping):
        tag = value.get("__float__") if len(value) == 1 else None
        return float(tag) if tag in _TAGS else {key: _finite_tags(inner) for key, inner in value.items()}
    return [_finite_tags(inner) for inner in value] if isinstance(value, list) else value


def _unknown(folder: Path, raw: Mapping[str, Any]) -> InputError:
    custom = "auto_map" in raw
    model_type = raw.get("model_type")
    return InputError(
        what=f"The architecture {model_type!r} is unknown." if model_type else "config.json names no architecture.",
        where=str(folder),
        why="the model brings its own Python code, and trust_remote_code is off"
        if custom
        else "the installed transformers has no model of that type",
        fix="Read that code, then pass --trust-remote-code."
        if custom
        else "Check model_type in config.json, or write a factory: MODEL = package.module:factory.",
        code="E109",
    )
