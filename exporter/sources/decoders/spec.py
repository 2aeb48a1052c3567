"""Read a decoder's shape from its transformers config, without torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, NonNegativeInt, PositiveInt, ValidationError

from edgec.bundle.limited_json import first_fault
from edgec.errors import InputError
from edgec.exporter.sources.decoders.expert_counts import routing_fault
from edgec.exporter.sources.decoders.key_choice import keys_before_choice
from edgec.exporter.sources.decoders.rotation_limits import rotation_limit
from edgec.ir.spec import LayerSpec, ModelSpec

# Kinds of layers without keys and values.
_WITHOUT_KEYS = frozenset({"linear_attention", "conv", "moe", "mlp"})
_CONTEXT = 2048
"""Positions of a model whose config does not state them."""


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a config (multimodal configs nest it under ``text_config``)."""
    nested = config.get("text_config")
    return nested if isinstance(nested, Mapping) else config


class _Layers(BaseModel):
    """The fields of a text decoder's config that single layers may override."""

    hidden_size: PositiveInt
    num_attention_heads: PositiveInt | None = None
    num_key_value_heads: NonNegativeInt | None = None
    head_dim: NonNegativeInt | None = None
    sliding_window: int | None = None
    use_sliding_window: bool | None = None


class _Decoder(_Layers):
    num_hidden_layers: PositiveInt
    vocab_size: PositiveInt
    max_position_embeddings: int | None = None
    model_type: str | None = None
    layer_types: list[str] | None = None
    per_layer_config: dict[str | int, dict[str, Any]] | None = None
    num_kv_shared_layers: NonNegativeInt | None = None
    num_global_key_value_heads: PositiveInt | None = None
    global_head_dim: PositiveInt | None = None
    attention_k_eq_v: bool = True


def model_spec(config: Mapping[str, Any]) -> ModelSpec:
    """Read a ModelSpec from a transformers config dictionary with values under their common names.

    Raises:
        InputError: E109, a field that decoders of attention layers have (``num_attention_heads``, ...) is absent; E111,
            a value makes no sense.
    """
    plain = text_config(config)
    try:
        text = _Decoder.model_validate(plain)
        if text.num_attention_heads is None and not _WITHOUT_KEYS.issuperset(text.layer_types or [""]):
            raise _lacks(config, ["num_attention_heads"])
        if fault := routing_fault(plain):
            raise ValueError(fault)
        layers = tuple(_layer(plain, text, index) for index in range(text.num_hidden_layers))
        kept, rotated = keys_before_choice(plain), rotation_limit(plain)
    except ValidationError as error:
        absent = [".".join(map(str, fault["loc"])) for fault in error.errors() if fault["type"] == "missing"]
        raise _lacks(config, absent) if absent else _senseless(first_fault(error)) from error
    except (ValueError, IndexError) as error:
        raise _senseless(str(error)) from error
    first = rotated.tokens if rotated else sys.maxsize
    longest = sys.maxsize if not rotated or rotated.others else first
    context = min(max(1, text.max_position_embeddings or _CONTEXT), kept or sys.maxsize, longest)
    return ModelSpec(
        family=text.model_type or str(config.get("model_type", "unknown")),
        vocab_size=text.vocab_size,
        hidden_size=text.hidden_size,
        context=context,
        layers=layers,
        tied=bool(config.get("tie_word_embeddings", plain.get("tie_word_embeddings", False))),
        original_context=first if first < context else None,
    )


def _lacks(config: Mapping[str, Any], absent: Sequence[str]) -> InputError:
    return InputError(
        what=f"The architecture {config.get('model_type', 'unknown')!r} is not a decoder with attention layers.",
        where="config.json",
        why=f"its config has no {', '.join(absent)}",
        fix="Pass --task for a non-decoder model, or write a factory: MODEL = package.module:factory.",
        code="E109",
    )


def _senseless(why: str) -> InputError:
    return InputError(
        what="config.json does not describe a model that can be built.",
        where="config.json",
        why=why[:400],
        fix="Correct the value, or copy config.json from the model's repository again.",
        code="E111",
    )


def _layer(plain: Mapping[str, Any], text: _Decoder, index: int) -> LayerSpec:
    count, heads = text.num_hidden_layers, text.num_attention_heads
    kinds = text.layer_types or [""] * count
    if heads is None or kinds[index] in _WITHOUT_KEYS:
        return LayerSpec(index=index, heads=0, kv_heads=0, head_dim=0)
    own = _Layers.model_validate({**plain, **_overrides(text, index, kinds[index])})
    return LayerSpec(
        index=index,
        heads=heads,
        kv_heads=own.num_key_value_heads or heads,
        head_dim=own.head_dim or text.hidden_size // heads,
        window=_window(own, kinds[index]),
        kv_donor=_donor(kinds, index, count - (text.num_kv_shared_layers or 0)),
    )


def _overrides(text: _Decoder, index: int, kind: str) -> Mapping[str, Any]:
    """The fields of one layer: from ``per_layer_config``, or from the ``global_*`` keys that it is made from."""
    if text.per_layer_config is not None:
        result: Mapping[str, Any] = text.per_layer_config.get(str(index), text.per_layer_config.get(index, {}))
        return result
    if kind != "full_attention":
        return {}
    kv_heads = text.num_global_key_value_heads if text.attention_k_eq_v else None
    given = {"head_dim": text.global_head_dim, "num_key_value_heads": kv_heads}
    return {key: value for key, value in given.items() if value}


def _window(own: _Layers, kind: str) -> int | None:
    if own.sliding_window is None or kind == "full_attention" or own.use_sliding_window is False:
        return None
    if own.sliding_window < 0 or (kind == "sliding_attention" and own.sliding_window == 0):
        raise ValueError(f"sliding_window is {own.sliding_window}: a window holds one token at least")
    return own.sliding_window or None


def _donor(kinds: Sequence[str], index: int, first_shared: int) -> int | None:
    """Gemma 3n/4: layers from ``first_shared`` on read the last earlier layer of their own kind."""
    if index < first_shared:
        return None
    own = [i for i in range(first_shared) if kinds[i] == kinds[index]]
    if not own:
        raise ValueError(f"layer {index} shares the keys of an earlier layer of its kind, and there is none")
    return own[-1]
