"""What a model is, in numbers: read from its config alone, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LayerSpec:
    """One attention layer.

    Attributes:
        index: position in the model.
        heads: query heads.
        kv_heads: key/value heads (GQA: a divisor of ``heads``).
        head_dim: width of one head.
        window: sliding window in tokens, or None for full attention.
        kv_donor: the layer whose keys and values this one reads, or None when it has its own.
    """

    index: int
    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    kv_donor: int | None = None


@dataclass(frozen=True)
class ModelSpec:
    """A decoder's shape.

    Attributes:
        family: transformers' ``model_type``.
        context: the longest sequence the model was made for, in tokens.
        tied: embedding and vocabulary matrix are one tensor.
    """

    family: str
    vocab_size: int
    hidden_size: int
    context: int
    layers: tuple[LayerSpec, ...]
    tied: bool

    def kv_values_per_token(self) -> int:
        """Key and value elements that one token adds over all layers with a cache of their own."""
        return sum(2 * layer.kv_heads * layer.head_dim for layer in self.layers if layer.kv_donor is None)


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a config (multimodal configs nest it under ``text_config``)."""
    nested = config.get("text_config")
    return nested if isinstance(nested, Mapping) else config


def model_spec(config: Mapping[str, Any]) -> ModelSpec:
    """Read a ModelSpec from a transformers config dictionary.

    Raises:
        KeyError: a field every decoder has (``hidden_size``, ``num_attention_heads``, ...) is absent.
    """
    text = text_config(config)
    count = int(text["num_hidden_layers"])
    heads = int(text["num_attention_heads"])
    return ModelSpec(
        family=str(text.get("model_type", config.get("model_type", "unknown"))),
        vocab_size=int(text["vocab_size"]),
        hidden_size=int(text["hidden_size"]),
        context=int(text.get("max_position_embeddings") or 2048),
        layers=tuple(_layer(text, index, count, heads) for index in range(count)),
        tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
    )


def _layer(text: Mapping[str, Any], index: int, count: int, heads: int) -> LayerSpec:
    kinds = text.get("layer_types") or [None] * count
    own = {**text, **_overrides(text, index, kinds[index])}
    return LayerSpec(
        index=index,
        heads=heads,
        kv_heads=int(own.get("num_key_value_heads") or heads),
        head_dim=int(own.get("head_dim") or int(text["hidden_size"]) // heads),
        window=_window(own, kinds[index]),
        kv_donor=_donor(kinds, index, count - int(text.get("num_kv_shared_layers") or 0)),
    )


def _overrides(text: Mapping[str, Any], index: int, kind: str | None) -> Mapping[str, Any]:
    """How one layer differs: transformers' ``per_layer_config``, or the global_* keys it is made from."""
    table = text.get("per_layer_config")
    if isinstance(table, Mapping):
        found: Mapping[str, Any] = table.get(str(index), table.get(index, {}))
        return found
    if kind != "full_attention":
        return {}
    kv_heads = text.get("num_global_key_value_heads") if text.get("attention_k_eq_v", True) else None
    given = {"head_dim": text.get("global_head_dim"), "num_key_value_heads": kv_heads}
    return {key: value for key, value in given.items() if value}


def _window(text: Mapping[str, Any], kind: str | None) -> int | None:
    window = text.get("sliding_window")
    if not window or kind == "full_attention" or text.get("use_sliding_window") is False:
        return None
    return int(window)


def _donor(kinds: list[str | None], index: int, first_shared: int) -> int | None:
    """Gemma 3n/4: layers from ``first_shared`` on read the last earlier layer of their own kind."""
    if index < first_shared:
        return None
    return max(i for i in range(first_shared) if kinds[i] == kinds[index])
