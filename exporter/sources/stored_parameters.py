"""The parameters of a model that its checkpoint stores as integers, for the passes that keep them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from edgec.exporter.sources.gguf_weights import GgufWeights
from edgec.exporter.sources.weight_conversion import ConvertedWeights
from edgec.exporter.sources.weight_names import BoundWeights
from edgec.exporter.sources.weights import Weights
from edgec.ir.stored_forms import FORM_BITS

if TYPE_CHECKING:
    from edgec.exporter.sources.model_source import ModelSource
    from edgec.passes.compress.rounding.stored_integers import StoredForm, StoredIntegers
    from edgec.passes.compress.rounding.weight_grid import QuantizedWeight


def stored_parameters(source: ModelSource, aliases: Mapping[str, str] | None = None) -> StoredIntegers | None:
    """What the passes may keep of a source's weights; None where the checkpoint stores floats only.

    Only the header has been read until a parameter is asked for.

    Args:
        source: the model.
        aliases: other names of its parameters, such as those of tied ones, and the names that its weights have.
    """
    from edgec.passes.compress.rounding.stored_integers import StoredIntegers

    weights, names = _base(source.weights)
    if not isinstance(weights, GgufWeights):
        return None
    names |= {name: names[own] for name, own in (aliases or {}).items() if own in names}
    base, forms = weights, {name: form for name, own in names.items() if (form := _form(weights, own)) is not None}

    def integers(name: str) -> QuantizedWeight:
        return _integers(base, names[name])

    def values(name: str) -> torch.Tensor:
        return base.tensor(names[name]).float()

    return StoredIntegers(forms, integers, values) if forms else None


def _base(weights: Weights | None) -> tuple[Weights | None, dict[str, str]]:
    """The weights under all layers of names, and the name there of each parameter that is stored as one."""
    if weights is None:
        return None, {}
    names = {name: name for name in weights.names()}
    while isinstance(weights, BoundWeights | ConvertedWeights):
        inside = weights.matched if isinstance(weights, BoundWeights) else weights.renamed
        names = {name: inside[own] for name, own in names.items() if own in inside}
        weights = weights.base
    return weights, names


def _form(weights: GgufWeights, name: str) -> StoredForm | None:
    """How a parameter is stored; None for floats and for vectors."""
    from edgec.passes.compress.rounding.stored_integers import StoredForm

    parameter = weights.parameters[name]
    kinds = [part.type for part in parameter.parts]
    quantised = [kind for kind in kinds if kind in FORM_BITS]
    if not quantised or len(parameter.shape) < 2:
        return None
    whole = len(set(kinds)) == 1 and not parameter.centred
    return StoredForm(name, quantised[0], sum(part.nbytes for part in parameter.parts), whole)


def _integers(weights: GgufWeights, name: str) -> QuantizedWeight:
    from edgec.passes.compress.rounding.weight_grid import QuantizedWeight

    blocks = weights.blocks(name)
    assert blocks is not None, name
    minimum = blocks.minimum
    beside = torch.zeros_like(blocks.s) if minimum is None else minimum
    return QuantizedWeight(blocks.codes, blocks.scale, beside)
