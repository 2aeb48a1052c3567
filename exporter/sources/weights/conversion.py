"""Convert checkpoints in an older layout with transformers' own renamings and fusions, applied lazily.

Source of the rules: transformers.conversion_mapping (5.23); here they run tensor by tensor over any Weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from edgec.errors import InputError
from edgec.exporter.sources.files.safetensors_header import TensorEntry
from edgec.exporter.sources.weights.streamed import Weights


@dataclass(frozen=True)
class Fusion:
    """Stored tensors that become one or more tensors of the model.

    Attributes:
        first: the name under which transformers collects them.
        converter: transformers' WeightConverter.
        sources: (pattern, stored name) in the order in which they are joined.
    """

    first: str
    converter: Any
    sources: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ConvertedWeights:
    """Stored weights under the names, and in the layout, of the current model class.

    Attributes:
        base: the stored weights.
        renamed: new name -> stored name.
        fused: new name -> the tensors that it is made of.
        entries: new name -> dtype and shape.
        config: the transformers config, which some operations read.
    """

    base: Weights
    renamed: Mapping[str, str]
    fused: Mapping[str, Fusion]
    entries: Mapping[str, TensorEntry]
    config: Any = field(repr=False)

    def names(self) -> Mapping[str, TensorEntry]:
        """Every tensor's dtype and shape after conversion."""
        return self.entries

    def tensor(self, name: str) -> torch.Tensor:
        """One converted tensor; a renamed one is still a view of its file."""
        if name in self.renamed:
            return self.base.tensor(self.renamed[name])
        return self.joined(name, {stored: self.base.tensor(stored) for _, stored in self.fused[name].sources})

    def joined(self, name: str, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Join tensors, given by the stored names, as those of a fused one are."""
        return _fuse(self.fused[name], tensors, self.config)[name]


def convert_weights(weights: Weights, model: Any) -> ConvertedWeights:
    """Give stored weights the names and layout of a transformers model.

    Args:
        weights: as stored.
        model: a PreTrainedModel, on any device (``meta`` suffices).

    Raises:
        InputError: E106, tensors that should be fused do not fit together.
    """
    renamed, fusions = _sort_names(weights, model)
    stored = weights.names()
    entries = {new: stored[old] for new, old in renamed.items()}
    fused: dict[str, Fusion] = {}
    for fusion in fusions:
        parts = {old: stored[old] for _, old in fusion.sources}
        shells = {old: torch.empty(part.shape, dtype=part.dtype, device="meta") for old, part in parts.items()}
        results = _fuse(fusion, shells, model.config)
        fused |= dict.fromkeys(results, fusion)
        entries |= {new: TensorEntry(value.dtype, tuple(value.shape)) for new, value in results.items()}
    return ConvertedWeights(weights, renamed, fused, entries, model.config)


def _sort_names(weights: Weights, model: Any) -> tuple[dict[str, str], list[Fusion]]:
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, dot_natural_key, rename_source_key

    rules = get_model_conversion_mapping(model)
    renamings = [rule for rule in rules if isinstance(rule, WeightRenaming)]
    converters = [rule for rule in rules if isinstance(rule, WeightConverter)]
    place = partial(rename_source_key, base_model_prefix=model.base_model_prefix, meta_state_dict=model.state_dict())
    known = model.state_dict().keys()
    renamed: dict[str, str] = {}
    groups: dict[str, list[tuple[str, str]]] = {}
    for old in sorted(weights.names(), key=dot_natural_key):
        new, pattern = place(old, renamings, converters)
        if new not in known and old in known:
            new, pattern = old, None
        if pattern is None:
            renamed[new] = old
        else:
            groups.setdefault(new, []).append((pattern, old))
    by_pattern = {pattern: rule for rule in converters for pattern in rule.source_patterns}
    return renamed, [Fusion(new, by_pattern[sources[0][0]], tuple(sources)) for new, sources in groups.items()]


def _fuse(fusion: Fusion, tensors: Mapping[str, torch.Tensor], config: Any) -> dict[str, torch.Tensor]:
    # A converter collects tensors internally, so each use needs its own copy.
    converter = deepcopy(fusion.converter)
    for pattern, stored in fusion.sources:
        converter.add_tensor(fusion.first, stored, pattern, partial(tensors.__getitem__, stored))
    try:
        results = converter.convert(fusion.first, config=config)
    except Exception as error:  # Any operation of any model family may fail on tensors that do not fit.
        raise _misfit(fusion, error) from error
    return {name: value[0] if isinstance(value, list) else value for name, value in results.items()}


def _misfit(fusion: Fusion, error: Exception) -> InputError:
    stored = [name for _, name in fusion.sources]
    return InputError(
        what="Stored tensors cannot be joined into the layout that the model needs.",
        where=f"{fusion.first}, from {len(stored)} tensors beginning with {stored[0]}",
        why=" ".join(str(error).split())[:300] or type(error).__name__,
        fix="Load the model with transformers and save it again with save_pretrained, then export that folder.",
        code="E106",
    )
