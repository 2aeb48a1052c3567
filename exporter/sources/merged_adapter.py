"""A LoRA's folder as the model: its base, with ``W + scale * B A`` in the place of each matrix that it changes.

    adapter_config.json, adapter_model.safetensors  ->  the base that they name  ->  its weights, merged when read

Sums are made in float32, whatever the base is stored in. Source: PEFT's ``merge_and_unload``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from edgec.errors import InputError
from edgec.exporter.sources.files.model_forms import ADAPTER_CONFIG, short_name
from edgec.exporter.sources.files.safetensors_header import TensorEntry
from edgec.exporter.sources.hf_config import DECODER
from edgec.exporter.sources.stored_parameters import stored_parameters
from edgec.exporter.sources.weights.names import BoundWeights
from edgec.exporter.sources.weights.streamed import Weights
from edgec.runtime_py.adapters.make import check_fit, no_target
from edgec.runtime_py.adapters.peft_folder import WEIGHTS, PeftFolder, PeftModule

if TYPE_CHECKING:
    from edgec.exporter.sources.model_source import ModelSource


@dataclass(frozen=True)
class MergedChange:
    """What an adapter adds to a matrix; ``turned``: the matrix is stored [width, rows]."""

    module: PeftModule
    scale: float
    turned: bool

    def added_to(self, weight: torch.Tensor) -> torch.Tensor:
        """The changed matrix, float32."""
        a, b = (torch.from_numpy(side.floats().copy()) for side in (self.module.a, self.module.b))
        change = (b @ a) * self.scale
        return weight.float() + (change.t() if self.turned else change)


@dataclass(frozen=True)
class MergedWeights:
    """Weights of which some matrices are changed when they are read.

    Attributes:
        base: the weights.
        changes: by the names there.
    """

    base: Weights
    changes: Mapping[str, MergedChange]

    def names(self) -> Mapping[str, TensorEntry]:
        """Every tensor; the changed ones are float32 and lie in no file."""
        entries = self.base.names()
        return {n: TensorEntry(torch.float32, e.shape) if n in self.changes else e for n, e in entries.items()}

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor; a changed one is computed anew at each call."""
        weight = self.base.tensor(name)
        return self.changes[name].added_to(weight) if name in self.changes else weight


def merged(base: ModelSource, lora: PeftFolder, model: str) -> ModelSource:
    """A base with an adapter's changes.

    Args:
        base: a decoder with float weights.
        lora: the adapter.
        model: MODEL as given.

    Raises:
        InputError: E693, the base has no such linear layers; E694, a matrix does not fit; E879, it is not a decoder, or
            its weights are quantised.
    """
    weights = base.weights
    if base.kind != DECODER or stored_parameters(base) is not None or not isinstance(weights, BoundWeights):
        kind = "its weights are quantised" if base.kind == DECODER else f"it is a model of another kind: {base.kind}"
        raise _no_merge(lora, base, kind)
    layers, changes = _linear_layers(base.build_on("meta")), {}
    unknown = [module.name for module in lora.modules if f"{module.name}.weight" not in weights.matched]
    unknown += [module.name for module in lora.modules if module.name not in layers and module.name not in unknown]
    if unknown:
        raise no_target(lora, unknown, f"{base.source} stores no linear layers of these names")
    for module in lora.modules:
        rows, width, turned = layers[module.name]
        check_fit(lora, module, rows, width)
        change = MergedChange(module, lora.settings.scale_of(module.name), turned)
        changes[weights.matched[f"{module.name}.weight"]] = change
    changed = replace(weights, base=MergedWeights(weights.base, changes))
    files = (*base.files, lora.path / ADAPTER_CONFIG, lora.path / WEIGHTS)
    return replace(base, name=short_name(lora.path.name), source=model, weights=changed, files=files, revision=None)


def _linear_layers(model: Any) -> dict[str, tuple[int, int, bool]]:
    """Rows and width of the linear layers by name, and whether the matrix is stored the other way round."""
    from torch.nn import Linear
    from transformers.pytorch_utils import Conv1D

    found = {}
    for name, layer in model.named_modules():
        if isinstance(layer, Linear | Conv1D):
            turned = isinstance(layer, Conv1D)
            rows, width = layer.weight.shape[::-1] if turned else layer.weight.shape
            found[name] = (int(rows), int(width), turned)
    return found


def _no_merge(lora: PeftFolder, base: ModelSource, why: str) -> InputError:
    return InputError(
        what="The adapter cannot be merged into its base.",
        where=str(lora.path),
        why=f"{base.source}: {why}",
        fix="name the decoder in floats as base_model_name_or_path, or keep the adapter apart: export the base, "
        "then `edgec adapter BUNDLE FOLDER`",
        code="E879",
    )
