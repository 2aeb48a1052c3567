"""The parameters of a model that its checkpoint stores as integers, for the passes that keep them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from edgec.exporter.sources.drafts.renamed import Renamed
from edgec.exporter.sources.gguf.weights import GgufWeights
from edgec.exporter.sources.joined_matrices import JoinedMatrices, joined_matrices
from edgec.exporter.sources.packed.weights import PackedTensor, PackedWeights
from edgec.exporter.sources.weights.conversion import ConvertedWeights
from edgec.exporter.sources.weights.names import BoundWeights
from edgec.exporter.sources.weights.streamed import Weights
from edgec.ir.row_tensor import RowTensor
from edgec.ir.stored_forms import FORM_BITS, HELD_SCHEMES

if TYPE_CHECKING:
    from edgec.exporter.sources.model_source import ModelSource
    from edgec.passes.compress.rounding.stored_integers import StoredForm, StoredIntegers
    from edgec.passes.compress.rounding.weight_grid import QuantizedWeight

Quantised = GgufWeights | PackedWeights
BEYOND_HALF = "a power of two that float16 does not hold"
HALF_BITS = 16


def stored_parameters(source: ModelSource, aliases: Mapping[str, str] | None = None) -> StoredIntegers | None:
    """What the passes may keep of a source's weights; None where the checkpoint stores floats only.

    Only headers, and scales of safetensors, have been read until a parameter is asked for.

    Args:
        source: the model.
        aliases: other names of its parameters, such as those of tied ones, and the names that its weights have.
    """
    return stored_in(source.weights, aliases)


def stored_in(bound: Weights | None, aliases: Mapping[str, str] | None = None) -> StoredIntegers | None:
    """As ``stored_parameters``, of weights under a model's names."""
    from edgec.passes.compress.rounding.stored_integers import StoredIntegers

    weights, names = _base(bound)
    if not isinstance(weights, Quantised):
        return None
    joined = _joined(bound, weights)
    own = {name: name for name in (*names, *joined)} | dict(aliases or {})
    forms = {name: form for name, mine in own.items() if (form := _form(weights, names, joined, mine)) is not None}

    def integers(name: str) -> QuantizedWeight:
        mine = own[name]
        return _joined_integers(joined[mine]) if mine in joined else _integers(weights, names[mine])

    def values(name: str) -> torch.Tensor:
        mine = own[name]
        rows = _rows(weights, names[mine]) if mine not in joined else None
        if rows is not None:
            return rows
        return (joined[mine].values() if mine in joined else weights.tensor(names[mine])).float()

    def columns(name: str) -> torch.Tensor | None:
        packed = weights.packed.get(names.get(own[name], "")) if isinstance(weights, PackedWeights) else None
        return packed.columns if packed is not None else None

    return StoredIntegers(forms, integers, values, columns) if forms else None


def row_tensors(weights: Weights) -> dict[str, torch.Tensor]:
    """The matrices of a quantised checkpoint as tensors that make rows when they are read, by the parameters' names."""
    base, names = _base(weights)
    if not isinstance(base, Quantised):
        return {}
    found = {name: _rows(base, inside) for name, inside in names.items()}
    return {name: rows for name, rows in found.items() if rows is not None}


def _rows(weights: Quantised, name: str) -> RowTensor | None:
    """One matrix as rows that are made when they are read; None where it has to be held."""
    if isinstance(weights, PackedWeights):
        return weights.rows(name)
    stored = weights.stored_rows(name)
    return stored.values() if stored is not None else None


def _joined(bound: Weights | None, base: Quantised) -> dict[str, JoinedMatrices]:
    """The parameters that are joined of several quantised matrices."""
    converted = bound.base if isinstance(bound, BoundWeights) else None
    # A predictor's tensors have the names of the model's first layer, which must not be taken for them.
    if not isinstance(bound, BoundWeights) or not isinstance(converted, ConvertedWeights) or converted.base is not base:
        return {}
    found = joined_matrices(converted, base) if isinstance(base, PackedWeights) else {}
    return {name: found[inside] for name, inside in bound.matched.items() if inside in found}


def _base(weights: Weights | None) -> tuple[Weights | None, dict[str, str]]:
    """The weights under all layers of names, and the name there of each parameter that is stored as one."""
    if weights is None:
        return None, {}
    names = {name: name for name in weights.names()}
    while isinstance(weights, BoundWeights | ConvertedWeights | Renamed):
        inside = _inside(weights)
        names = {name: inside[own] for name, own in names.items() if own in inside}
        weights = weights.base
    return weights, names


def _inside(weights: BoundWeights | ConvertedWeights | Renamed) -> Mapping[str, str]:
    """The name that each tensor has one layer of names further in."""
    if isinstance(weights, Renamed):
        return weights.stored
    return weights.matched if isinstance(weights, BoundWeights) else weights.renamed


def _form(
    weights: Quantised, names: Mapping[str, str], joined: Mapping[str, JoinedMatrices], name: str
) -> StoredForm | None:
    """How a parameter is stored; None for floats and for vectors."""
    if name not in names:
        return _packed_form(name, joined.get(name))
    inside = names[name]
    if isinstance(weights, PackedWeights):
        return _packed_form(inside, weights.packed.get(inside))
    return _gguf_form(weights, inside)


def _gguf_form(weights: GgufWeights, name: str) -> StoredForm | None:
    from edgec.passes.compress.rounding.stored_integers import StoredForm

    parameter = weights.parameters[name]
    kinds = [part.type for part in parameter.parts]
    quantised = [kind for kind in kinds if kind in FORM_BITS]
    if not quantised or len(parameter.shape) < 2:
        return None
    whole, beyond = len(set(kinds)) == 1 and not parameter.centred, name in weights.beyond_half
    form, size = quantised[0], sum(part.nbytes for part in parameter.parts)
    scheme = HELD_SCHEMES.get(form) if whole and not beyond else None
    # Scales of the others are products of a float16 number and a few bits.
    half = scheme is not None and scheme.scale_bits == HALF_BITS
    return StoredForm(name, form, size, FORM_BITS[form], scheme, BEYOND_HALF if beyond else "", half)


def _packed_form(name: str, tensor: PackedTensor | JoinedMatrices | None) -> StoredForm | None:
    from edgec.passes.compress.rounding.stored_integers import StoredForm

    if tensor is None:
        return None
    return StoredForm(name, tensor.form, tensor.bytes, tensor.bits, tensor.scheme, tensor.reason, tensor.half)


def _joined_integers(joined: JoinedMatrices) -> QuantizedWeight:
    from edgec.passes.compress.rounding.weight_grid import QuantizedWeight

    return QuantizedWeight(*joined.grid())


def _integers(weights: Quantised, name: str) -> QuantizedWeight:
    """The integers, scales and minimums or zero points of a parameter that is kept."""
    from edgec.passes.compress.rounding.weight_grid import QuantizedWeight

    if isinstance(weights, PackedWeights):
        tensor = weights.packed[name]
        assert tensor.integers is not None and tensor.scheme is not None, name
        return QuantizedWeight(*tensor.integers.grid(tensor.scheme))
    rows = weights.stored_rows(name)
    if rows is not None:
        return QuantizedWeight(*rows.integers())
    blocks = weights.blocks(name)
    assert blocks is not None, name
    minimum = blocks.minimum
    beside = torch.zeros_like(blocks.s) if minimum is None else minimum
    return QuantizedWeight(blocks.codes, blocks.scale, beside)
