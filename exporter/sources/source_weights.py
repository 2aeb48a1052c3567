"""Bind stored weights to a model, or make random ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from edgec.exporter.sources.model_build import expected_shapes, tied_parameters, untie
from edgec.exporter.sources.weight_choice import StoredWeights
from edgec.exporter.sources.weights.conversion import convert_weights
from edgec.exporter.sources.weights.names import (
    BoundWeights,
    NameTolerance,
    adapted_absence,
    check_weights,
    recorded_scales,
    untied_weights,
)
from edgec.exporter.sources.weights.streamed import RandomWeights

# In a multimodal checkpoint: everything outside the language model.
_OUTSIDE_TEXT = r"^(?!(model\.)?language_model\.|(model\.)?text_model\.|lm_head\.|model\.(layers|embed_tokens|norm)\.)"
_EVERYTHING = r""
_POOLER = r"^pooler\."
_KEY_NORM = "k_norm.weight"
_MOST_PREDICTORS = 8
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def random_weights(model: Any, seed: int, raw: Mapping[str, Any]) -> RandomWeights:
    """Random values for a model's parameters; stored buffers keep the values that they were built with.

    Args:
        model: a transformers model on any device.
        seed: changes every tensor.
        raw: config.json as written; it names the dtype of the tensors, float32 by default.
    """
    parameters = {name for name, _ in model.named_parameters()}
    shapes = {name: shape for name, shape in expected_shapes(model).items() if name in parameters}
    tables = (table for table in (raw, raw.get("text_config")) if isinstance(table, Mapping))
    named = (table.get("dtype") or table.get("torch_dtype") for table in tables)
    stated_dtype = next((_DTYPES[name] for name in named if isinstance(name, str) and name in _DTYPES), torch.float32)
    return RandomWeights(shapes, seed, stated_dtype, vectors=_key_norms(model))


def _key_norms(model: Any) -> dict[str, float]:
    """The norms of keys of layers that do not scale their scores (Gemma 4), as small as others' scales.

    Their scores would be sixteen times as large: every softmax would choose one key, and any rounding another text.
    """
    unscaled = {name for name, module in model.named_modules() if getattr(module, "scaling", None) == 1.0}
    named = ((name, value) for name, value in model.named_parameters() if name.endswith(f".{_KEY_NORM}"))
    return {name: value.shape[-1] ** -0.5 for name, value in named if name.removesuffix(f".{_KEY_NORM}") in unscaled}


def bind_weights(model: Any, weights: StoredWeights, raw: Mapping[str, Any]) -> BoundWeights:
    """Bind stored weights to a transformers model's parameter names.

    Args:
        model: on any device; only names and shapes are read. What the checkpoint unties is untied in it.
        weights: as stored.
        raw: config.json as written.

    Raises:
        InputError: E106, the config contradicts the weights.
    """
    converted = convert_weights(weights, model)
    untied = untied_weights(tied_parameters(model), converted)
    untie(model, untied)
    ignored = model._keys_to_ignore_on_load_unexpected or ()
    # A base model may have been trained inside a class that does not use the pooler.
    is_base = type(model).__name__.endswith("Model")
    tolerance = NameTolerance(
        tied=tied_parameters(model),
        absent=(_POOLER,) if is_base else (),
        zeroed=(*adapted_absence({**model.config.to_dict(), **raw}), *_needless_buffers(model)),
        surplus=(*ignored, *_surplus(model, raw), *recorded_scales(raw), *_predictors(raw)),
        computed=_tables(model),
    )
    return replace(check_weights(expected_shapes(model), converted, tolerance), untied=untied)


def _needless_buffers(model: Any) -> tuple[str, ...]:
    """Stored buffers that a checkpoint may lack by the class's own word, such as BART's bias of the logits."""
    buffers = {name for name, _ in model.named_buffers()}
    return tuple(f"^{re.escape(name)}$" for name in model._keys_to_ignore_on_load_missing or () if name in buffers)


def _tables(model: Any) -> dict[str, torch.Tensor]:
    """The tables of sines that a class computes and does not save, such as Marian's positions."""
    names = [name for name in model._keys_to_ignore_on_load_missing or () if name.endswith(".weight")]
    modules = {name: _submodule(model, name.removesuffix(".weight")) for name in names}
    return {name: module.create_weight() for name, module in modules.items() if hasattr(module, "create_weight")}


def _submodule(model: Any, name: str) -> Any:
    """A submodule, or None."""
    try:
        return model.get_submodule(name)
    except AttributeError:
        return None


def _predictors(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """The layers after the last that DeepSeek V3 and GLM-4-MoE keep their predictors of further tokens in.

    transformers knows them by the numbers that the published sizes have.
    """
    nested = raw.get("text_config")
    text = nested if isinstance(nested, Mapping) else raw
    layers, count = text.get("num_hidden_layers"), text.get("num_nextn_predict_layers")
    if not isinstance(layers, int) or not isinstance(count, int):
        return ()
    return tuple(rf"^model\.layers\.{layers + place}\." for place in range(min(count, _MOST_PREDICTORS)))


def _surplus(model: Any, raw: Mapping[str, Any]) -> tuple[str, ...]:
    named = next(iter(raw.get("architectures") or ()), None)
    if named in (None, type(model).__name__):
        return ()
    # The class differs from the checkpoint's: it is its text part, or its body with another head.
    return (_OUTSIDE_TEXT,) if "text_config" in raw else (_EVERYTHING,)
