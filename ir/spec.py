"""A decoder's shape in numbers, read from its config alone, without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerSpec:
    """The shape of one layer; without attention it has no heads.

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
        original_context: tokens of the longest text with the first of several sets of rotary frequencies; an artifact
            for longer texts has another set at all positions. None where there is one set.
        tied: embedding and lm_head are one tensor.
    """

    family: str
    vocab_size: int
    hidden_size: int
    context: int
    layers: tuple[LayerSpec, ...]
    tied: bool
    original_context: int | None = None

    @property
    def usual_context(self) -> int:
        """The longest context that an artifact has unless a longer one is asked for."""
        return min(self.context, self.original_context or self.context)

    def kv_values_per_token(self) -> int:
        """Key and value elements that one token adds, over all layers that have their own cache."""
        return sum(2 * layer.kv_heads * layer.head_dim for layer in self.layers if layer.kv_donor is None)
