"""The float model that a bundle is compared with, executed by transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from edgec.errors import InputError
from edgec.runtime_py.engines.native import captured_stderr
from edgec.runtime_py.stepper import Logits

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


class Reference(Protocol):
    """Anything that gives logits for a whole sequence at once."""

    @property
    def name(self) -> str:
        """Where it came from."""

    def logits(self, tokens: Sequence[int]) -> Logits:
        """float32 [tokens, vocabulary]."""


class FloatModel:
    """A causal language model of transformers in float32. ``name``: folder or hub id."""

    def __init__(self, name: str) -> None:
        """Load it; code that comes with a model is never executed.

        Raises:
            InputError: E165, there is no such model or it cannot be loaded.
        """
        self.name = name
        # Imports and loading report progress and optional libraries there; neither is news here.
        with captured_stderr():
            from transformers import AutoModelForCausalLM

            try:
                model = AutoModelForCausalLM.from_pretrained(name, dtype="float32", trust_remote_code=False)
            except (OSError, ValueError, KeyError) as cause:
                raise _unusable(name, str(cause)[:300]) from cause
        self._model = model.eval()

    def logits(self, tokens: Sequence[int]) -> Logits:
        """Logits of one sequence without a cache; float32 [tokens, vocabulary]."""
        import torch

        with torch.inference_mode():
            return np.asarray(self._model(torch.tensor([list(tokens)]), use_cache=False).logits[0].float().numpy())


def reference_for(bundle: Bundle, name: str | None) -> FloatModel | None:
    """The named float model, or the bundle's source where it is still a local folder, or None.

    Raises:
        InputError: E165, the model cannot be loaded or its vocabulary is another.
    """
    source = bundle.manifest.model.source
    if name is None and not (bundle.manifest.model.trained and Path(source, "config.json").is_file()):
        return None
    model = FloatModel(name or source)
    vocabulary = bundle.manifest.model.vocab_size
    width = model.logits([0]).shape[-1]
    if vocabulary is not None and width != vocabulary:
        raise _unusable(model.name, f"its vocabulary has {width} entries, the bundle's {vocabulary}")
    return model


def _unusable(name: str, why: str) -> InputError:
    return InputError(
        "The float model cannot serve as the reference.",
        where=name,
        why=why,
        fix="give --reference the folder of the model that the bundle was exported from",
        code="E165",
    )
