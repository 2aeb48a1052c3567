"""From config.json to a transformers config and a kind of model, without weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgec.errors import InputError

DECODER = "decoder"
MODULE = "module"
_DECODER_SUFFIXES = ("ForCausalLM", "LMHeadModel")
_DECODER_TASKS = ("text-generation", "text-generation-with-past", "causal-lm", "causal-lm-with-past")
# Larger than any published model; beyond it a config is a mistake that would keep the compiler busy for ever.
_LARGEST = {
    "num_hidden_layers": 2_000,
    "hidden_size": 1_000_000,
    "vocab_size": 100_000_000,
    "num_attention_heads": 10_000,
    "num_key_value_heads": 10_000,
    "intermediate_size": 10_000_000,
}


def load_config(folder: Path, raw: Mapping[str, Any], *, trust_remote_code: bool = False) -> Any:
    """The transformers config of a model folder.

    Raises:
        InputError: E109 (transformers does not know the architecture) or E111 (a value makes no sense).
    """
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    _check_sizes(folder, raw)
    model_type = raw.get("model_type")
    known = isinstance(model_type, str) and model_type in CONFIG_MAPPING
    remote = trust_remote_code and "auto_map" in raw
    if not known and not remote:
        raise _unknown(folder, raw)
    try:
        if remote:
            return AutoConfig.from_pretrained(folder, trust_remote_code=True)
        return CONFIG_MAPPING[model_type].from_dict(dict(raw))
    except Exception as error:  # Each config class validates in its own way.
        raise bad_config(folder, error) from error


def kind_of(config: Any, task: str | None) -> str:
    """``decoder`` or ``module``, from the task if it is given, else from the config's architectures.

    Args:
        config: a transformers config.
        task: one of optimum's task names, or None.
    """
    if task is not None:
        return DECODER if task in _DECODER_TASKS else MODULE
    name = next(iter(config.architectures or ()), None)
    if name is None:
        return DECODER if _is_causal_type(config.model_type) else MODULE
    if name.endswith(_DECODER_SUFFIXES):
        return DECODER
    multimodal = name.endswith("ForConditionalGeneration") and getattr(config, "text_config", None) is not None
    return DECODER if multimodal else MODULE


def decoder_config(folder: Path, config: Any) -> Any:
    """The config of the text-only decoder (the nested text config of a multimodal model).

    Raises:
        InputError: E109, transformers has no decoder for it alone.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    text = config.get_text_config(decoder=True)
    if type(text) not in MODEL_FOR_CAUSAL_LM_MAPPING and "AutoModelForCausalLM" not in getattr(text, "auto_map", {}):
        raise InputError(
            what=f"The architecture {text.model_type!r} has no text-only decoder in transformers.",
            where=str(folder),
            why=f"AutoModelForCausalLM does not know {type(text).__name__}",
            fix="Pass --task for a model that is not a decoder, or write a factory: MODEL = package.module:factory.",
            code="E109",
        )
    return text


def refuse_quantized(folder: Path, raw: Mapping[str, Any]) -> None:
    """Refuse checkpoints whose weights are already integers: edgec quantises from floating point.

    Raises:
        InputError: E147.
    """
    entry = raw.get("quantization_config")
    if entry is None:
        return
    method = entry.get("quant_method", "an unnamed method") if isinstance(entry, Mapping) else entry
    raise InputError(
        what=f"The checkpoint is already quantised ({method}).",
        where=str(folder),
        why="config.json holds a quantization_config; edgec starts from floating-point weights",
        fix="Pass the unquantised checkpoint (usually the repository without -GPTQ, -AWQ, -FP8 or -bnb in its name).",
        code="E147",
    )


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


def _check_sizes(folder: Path, raw: Mapping[str, Any]) -> None:
    nested = raw.get("text_config")
    for level in (raw, nested if isinstance(nested, Mapping) else {}):
        for name, largest in _LARGEST.items():
            value = level.get(name)
            if isinstance(value, int) and not 0 < value <= largest:
                raise bad_config(folder, f"{name} is {value}, which is outside 1..{largest}")


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
