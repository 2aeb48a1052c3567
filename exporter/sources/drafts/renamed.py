"""Stored tensors under other names, some of them from another store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from edgec.exporter.sources.files.safetensors_header import TensorEntry
from edgec.exporter.sources.weights.streamed import Weights


@dataclass(frozen=True)
class Renamed:
    """Weights under new names.

    Attributes:
        base: the store.
        stored: new name -> name in ``base``.
        others: name -> the store that holds it under this very name.
    """

    base: Weights
    stored: Mapping[str, str]
    others: Mapping[str, Weights] = field(default_factory=dict)

    def names(self) -> Mapping[str, TensorEntry]:
        """Every tensor's dtype, shape and place."""
        entries = self.base.names()
        own = {name: entries[stored] for name, stored in self.stored.items()}
        return {**own, **{name: store.names()[name] for name, store in self.others.items()}}

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor, in its stored dtype."""
        if name in self.others:
            return self.others[name].tensor(name)
        return self.base.tensor(self.stored[name])
