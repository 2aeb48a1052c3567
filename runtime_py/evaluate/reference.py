"""The float model that a bundle is compared with, executed by transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from edgec.errors import InputError
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.engines.executorch_binding import captured_stderr

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


class ReferenceModel(Protocol):
    """A model that gives logits for a whole sequence at once."""

    @property
    def name(self) -> str:
        """The model's folder or hub id."""

    def logits(self, tokens: Sequence[int]) -> Logits:
        """The logits of one sequence, float32 [tokens, vocabulary]."""


class FloatModel:
    """A language model of transformers in float32. ``name``: folder or hub id."""

    def __init__(self, name: str, images: bool = False) -> None:
        """Load the model, which may have vision; code that comes with it is never executed.

        Raises:
            InputError: E165, there is no such model or it cannot be loaded.
        """
        self.name = name
        # Imports and loading report progress and optional libraries there; neither matters here.
        with captured_stderr():
            from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

            auto = AutoModelForImageTextToText if images else AutoModelForCausalLM
            try:
                model = auto.from_pretrained(name, dtype="float32", trust_remote_code=False)
            except (OSError, ValueError, KeyError) as cause:
                raise _unusable(name, str(cause)[:300]) from cause
        self._model = model.eval()

    def logits(self, tokens: Sequence[int]) -> Logits:
        """The logits of one sequence without a cache, float32 [tokens, vocabulary]."""
        import torch

        with torch.inference_mode():
            return np.asarray(self._model(torch.tensor([list(tokens)]), use_cache=False).logits[0].float().numpy())


OpenReference = Callable[[str, bool], ReferenceModel]
"""Opens a model by its name, which may have vision; as ``FloatModel``."""


def reference_for(bundle: Bundle, name: str | None, opens: OpenReference | None = None) -> ReferenceModel | None:
    """The named float model, or the bundle's source where it is still a local folder or GGUF file, or None.

    Args:
        bundle: what it is the reference of.
        name: folder, hub id, or what ``opens`` knows.
        opens: opens it; None: transformers alone, which reads no GGUF file.

    Raises:
        InputError: E165, the model cannot be loaded or has another vocabulary.
    """
    source = bundle.manifest.model.source
    local = Path(source, "config.json").is_file() or (opens is not None and _is_gguf(Path(source)))
    if name is None and not (bundle.manifest.model.trained and local):
        return None
    model = (opens or FloatModel)(name or source, bundle.manifest.vision_language is not None)
    vocabulary = bundle.manifest.model.vocab_size
    width = model.logits([0]).shape[-1]
    if vocabulary is not None and width != vocabulary:
        raise _unusable(model.name, f"its vocabulary has {width} entries, the bundle's {vocabulary}")
    return model


def _is_gguf(path: Path) -> bool:
    return path.suffix == ".gguf" and path.is_file()


def _unusable(name: str, why: str) -> InputError:
    return InputError(
        "The float model cannot serve as the reference.",
        where=name,
        why=why,
        fix="give --reference the folder of the model that the bundle was exported from",
        code="E165",
    )
