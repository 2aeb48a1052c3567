"""A quantised checkpoint as the float model that it means, for ``edgec eval``: transformers' code over its values.

    FILE.gguf, or a folder in GPTQ, AWQ, ...   ->   values as docs/checkpoints.md defines them   ->   logits in float32

It is the model that an export's ladder begins with: rows of GGUF matrices are dequantised by the ``gguf`` package when
they are read, so that no float copy exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from edgec.exporter.parity.execution import step_by_step
from edgec.exporter.parity.float32_mode import InFloat32
from edgec.exporter.sources.files.model_forms import existing_path
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.sources.stored_parameters import stored_parameters
from edgec.exporter.stages.capturing import eager_model, stream_weights
from edgec.quiet import quiet
from edgec.runtime_py.evaluate.reference import FloatModel

if TYPE_CHECKING:
    from edgec.runtime_py.decoding.stepper import Logits
    from edgec.runtime_py.evaluate.reference import ReferenceModel


class StoredModel:
    """A decoder over the values of its checkpoint."""

    def __init__(self, source: ModelSource) -> None:
        """Build it; weights are mapped, or dequantised when they are read."""
        self.name = source.source
        self._model = eager_model(source, stream_weights(source))

    def logits(self, tokens: Sequence[int]) -> Logits:
        """The logits of one sequence without a cache, float32 [tokens, vocabulary]."""
        with torch.no_grad(), InFloat32(), step_by_step(self._model):
            values: torch.Tensor = self._model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0]
        return values.float().numpy()


@quiet()
def open_reference(name: str, images: bool = False) -> ReferenceModel:
    """The float model of a name: a local quantised checkpoint by its own meaning, any other as transformers loads it.

    Args:
        name: a GGUF file, a folder or a hub id.
        images: the model takes images.

    Raises:
        InputError: E165, transformers cannot load it; what a damaged checkpoint raises (docs/checkpoints.md).
    """
    if not images and existing_path(name) is not None and (source := _quantised(name)) is not None:
        return StoredModel(source)
    return FloatModel(name, images)


def _quantised(name: str) -> ModelSource | None:
    """A decoder whose checkpoint stores integers; None for any other."""
    source = resolve(name)
    return source if source.kind == "decoder" and stored_parameters(source) is not None else None
