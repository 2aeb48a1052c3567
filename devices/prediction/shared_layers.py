"""The parameters and the prompt's work that ``shared_kv`` and ``prefill_skip`` leave of a decoder, from its shapes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from edgec.devices.prediction.parameters import Kind, Parameter
from edgec.ir.spec import LayerSpec, ModelSpec

_LAYER = re.compile(r"\blayers\.(\d+)\.")
_OWN_KEYS = re.compile(r"\.(k_proj|v_proj|k_norm|v_norm)\.")
_FUSED = re.compile(r"\.qkv_proj\.")


def without_shared(listed: Sequence[Parameter], before: ModelSpec, after: ModelSpec) -> tuple[Parameter, ...]:
    """The parameters that are left when layers read the keys and values of others.

    Args:
        listed: the model's parameters.
        before: the model's shape.
        after: its shape with donors; layers that gained one lose their projections, or the rows of a fused one.
    """
    readers = {new.index for old, new in zip(before.layers, after.layers, strict=True) if old.kv_donor != new.kv_donor}
    kept = (_kept(parameter, after) if layer_of(parameter) in readers else parameter for parameter in listed)
    return tuple(parameter for parameter in kept if parameter is not None)


def _kept(parameter: Parameter, spec: ModelSpec) -> Parameter | None:
    if _OWN_KEYS.search(parameter.name):
        return None
    if _FUSED.search(parameter.name):
        layer = spec.layers[layer_of(parameter) or 0]
        return replace(parameter, shape=(layer.heads * layer.head_dim, *parameter.shape[1:]))
    return parameter


def layer_of(parameter: Parameter) -> int | None:
    """The index of the layer that a parameter belongs to, or None."""
    match = _LAYER.search(parameter.name)
    return int(match[1]) if match else None


def prompt_layers(spec: ModelSpec) -> tuple[LayerSpec, ...]:
    """The layers that every token of a prompt goes through: all up to the last one that holds a cache."""
    last = max(layer.index for layer in spec.layers if layer.kv_donor is None)
    return tuple(layer for layer in spec.layers if layer.index <= last)


def prompt_share(listed: Sequence[Parameter], spec: ModelSpec) -> float:
    """The share (0..1) of the matrices' work that every token of a prompt needs; the rest runs for the last token only.

    Layers after the last one that holds a cache serve no later token (``passes/prefill/prefill_skip.py``). The lm_head
    is in neither part.
    """
    last = prompt_layers(spec)[-1].index
    work = [(layer_of(p), p.count * p.active) for p in listed if p.kind is Kind.LINEAR]
    whole = sum(count for _, count in work)
    return sum(count for layer, count in work if layer is None or layer <= last) / whole if whole else 1.0
