"""Which layer lends its keys and values to which: plain arithmetic over a decoder's shape, without torch.

    boundary 5/8 of 8 layers:      layer   0 1 2 3 4 | 5 6 7
                                   reads   0 1 2 3 4 | 4 4 4

After the boundary, a layer reads the last layer before it that is of the same kind. ``edgec plan`` counts KV bytes with
this; the pass ``shared_kv`` takes more into a layer's kind (its rotation), which a config does not tell.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from edgec.errors import InputError
from edgec.ir.spec import ModelSpec

BOUNDARY = 5 / 8
AUTO = "auto"
"""The boundary is chosen on text (``exporter/adapt/boundary.py``)."""


def kept_layers(boundary: float | int | str, layers: int) -> int:
    """How many first layers keep their own keys and values.

    Args:
        boundary: an int counts layers; a float is the share of ``layers`` (0..1), rounded to the nearest layer.
        layers: of the model.

    Raises:
        InputError: E186, no layer would be left to lend, or none to read; E510, the boundary is not chosen yet.
    """
    if isinstance(boundary, str):
        raise not_chosen()
    kept = boundary if isinstance(boundary, int) else int(boundary * layers + 0.5)
    if isinstance(boundary, bool) or not 0 < kept < layers:
        raise InputError(
            what=f"shared_kv: no such boundary: {boundary}",
            where=f"a model of {layers} layers",
            why=f"{kept} layers would keep their keys and values; at least 1 must, and at most {layers - 1} may",
            fix="give a share between 0 and 1 (0.625), or a number of layers",
            code="E186",
        )
    return kept


def not_chosen() -> InputError:
    """The error for a boundary that can only be chosen on text, where there is none."""
    return InputError(
        what="shared_kv: the boundary has to be chosen on text, and there is none",
        where=f'[shared_kv] boundary = "{AUTO}"',
        why="the number of layers that may share is measured on text; the config does not contain it",
        fix="run edgec adapt (its folder records the boundary), pass --calibrate FILE to export, or give a number",
        code="E510",
    )


def donors(kinds: Mapping[int, Hashable], kept: int) -> dict[int, int]:
    """The lender of each layer from ``kept`` on: the last layer before it of the same kind.

    Args:
        kinds: layer -> whatever two layers must agree on.
        kept: how many first layers have their own keys and values.

    Raises:
        InputError: E185, a kind occurs only after the boundary.
    """
    lenders = {kind: layer for layer, kind in sorted(kinds.items()) if layer < kept}
    for layer, kind in kinds.items():
        if layer >= kept and kind not in lenders:
            raise InputError(
                what="shared_kv: a layer finds no keys and values to read",
                where=f"layer {layer}, boundary {kept}",
                why="no layer before the boundary has the same window, KV heads, head width and rotation",
                fix="move the boundary past the first layer of each kind",
                code="E185",
            )
    return {layer: lenders[kind] for layer, kind in kinds.items() if layer >= kept}


def with_donors(spec: ModelSpec, lenders: Mapping[int, int]) -> ModelSpec:
    """The spec of a model whose layers read the keys and values of others."""
    layers = tuple(replace(each, kv_donor=lenders.get(each.index, each.kv_donor)) for each in spec.layers)
    return replace(spec, layers=layers)


def shared_spec(spec: ModelSpec, boundary: float | int | str = BOUNDARY) -> ModelSpec:
    """A model's shape after ``shared_kv``, from its config alone.

    Raises:
        InputError: E185, E186, E510.
    """
    kinds = {layer.index: (layer.window, layer.kv_heads, layer.head_dim) for layer in spec.layers}
    lenders = donors(kinds, kept_layers(boundary, len(spec.layers)))
    native = {layer.index: layer.kv_donor for layer in spec.layers}
    # A lender may itself read from an earlier layer (Gemma 3n): name the layer that holds the cache.
    return with_donors(spec, {layer: _root(native, lender) for layer, lender in lenders.items()})


def _root(native: Mapping[int, int | None], layer: int) -> int:
    """The layer whose cache a layer reads in the end."""
    donor = native[layer]
    return layer if donor is None else _root(native, donor)
