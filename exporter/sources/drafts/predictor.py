"""A predictor of further tokens as the stages need it: a model of one layer, and what it goes on from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from edgec.exporter.sources.weights.names import BoundWeights
from edgec.ir.spec import ModelSpec


@dataclass(frozen=True)
class Predictor:
    """A predictor, checked against its model.

    Attributes:
        name: what ``--speculate`` calls it.
        config: transformers' config of the model of one layer.
        weights: under that model's names.
        spec: the whole model's shape with the predictor as one further layer, the last.
        files: those that it was read from beside the model's own.
        taps: the layers before which hidden states are taken; empty for those after the last norm.
        matrix: makes one hidden state of those, [H, 3H]; None where there is one.
    """

    name: str
    config: Any
    weights: BoundWeights
    spec: ModelSpec
    files: tuple[Path, ...] = ()
    taps: tuple[int, ...] = ()
    matrix: Tensor | None = None

    @property
    def layer(self) -> int:
        """The number of the predictor's layer: that after the model's."""
        return len(self.spec.layers) - 1

    def build_on(self, device: str | None, attn_implementation: str) -> Any:
        """The model of one layer, with uninitialised parameters; as ``ModelSource.build_on``."""
        raise NotImplementedError


def is_predictors(name: str, kind: str) -> bool:
    """Whether a parameter of the model of one layer is the predictor's; what else it reads is the model's."""
    own = r"join|model\.layers\.0|model\.norm" + (r"|lm_head" if kind == "eagle3" else "")
    return re.match(rf"(?:decoder\.)?(?:{own})\b", name) is not None
