"""The vectors that a sentence encoder's own libraries compute, as a yardstick that shares no code with edgec.

``transformers``: AutoModel, and after it pooling, dense layers and normalisation as ``modules.json`` lists them, in the
way that sentence-transformers documents. ``sentence-transformers``: that library itself, where it is installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

Compute = Callable[["Tensor", "Tensor"], "Tensor"]
"""Token ids and their mask [N, T] to vectors [N, D], float32."""
Ids = Sequence[int]


def by_transformers(folder: Path) -> Compute:
    """Transformers' AutoModel with the parts of ``modules.json``."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder).eval().float()
    parts = json.loads((folder / "modules.json").read_text())
    steps = [_STEPS[part["type"].rpartition(".")[2]](folder / part["path"]) for part in parts[1:]]

    def compute(ids: Tensor, mask: Tensor) -> Tensor:
        value = model(input_ids=ids, attention_mask=mask).last_hidden_state
        for step in steps:
            value = step(value, mask)
        made: Tensor = value
        return made

    return compute


def by_sentence_transformers(folder: Path) -> Compute:
    """The library that the folder's layout comes from."""
    model = import_module("sentence_transformers").SentenceTransformer(str(folder), device="cpu")

    def compute(ids: Tensor, mask: Tensor) -> Tensor:
        made: Tensor = model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"]
        return made

    return compute


LIBRARIES: Mapping[str, Callable[[Path], Compute]] = {
    "transformers": by_transformers,
    "sentence-transformers": by_sentence_transformers,
}


def vectors(compute: Compute, texts: Sequence[Ids]) -> NDArray[np.float64]:
    """The vectors [N, D], of length 1, of texts that are padded on the right to the longest of them."""
    import torch

    longest = max(map(len, texts))
    rows = [[*text, *[0] * (longest - len(text))] for text in texts]
    mask = [[1] * len(text) + [0] * (longest - len(text)) for text in texts]
    with torch.no_grad():
        return unit(compute(torch.tensor(rows), torch.tensor(mask)).float().numpy())


def unit(rows: NDArray[Any]) -> NDArray[np.float64]:
    """The same directions with length 1, in float64."""
    exact = rows.astype(np.float64)
    return np.asarray(exact / np.linalg.norm(exact, axis=-1, keepdims=True))


def _pooling(folder: Path) -> Compute:
    told = json.loads((folder / "config.json").read_text())
    flags = [name.removeprefix("pooling_mode_") for name, value in told.items() if value is True]
    (chosen,) = [name for name in flags if name in _POOLINGS] or [told["pooling_mode"]]
    return _POOLINGS[chosen]


def _mean(tokens: Tensor, mask: Tensor) -> Tensor:
    kept = mask.unsqueeze(-1).expand(tokens.size()).float()
    return (tokens * kept).sum(1) / kept.sum(1).clamp(min=1e-9)


def _last(tokens: Tensor, mask: Tensor) -> Tensor:
    import torch

    return tokens[torch.arange(len(tokens)), mask.sum(1) - 1]


_POOLINGS: Mapping[str, Compute] = {
    "mean_tokens": _mean,
    "mean": _mean,
    "cls_token": lambda tokens, _: tokens[:, 0],
    "cls": lambda tokens, _: tokens[:, 0],
    "max_tokens": lambda tokens, mask: tokens.masked_fill(mask.unsqueeze(-1) == 0, -1e9).max(1).values,
    "lasttoken": _last,
}


def _dense(folder: Path) -> Compute:
    import torch
    from safetensors.torch import load_file

    stored = load_file(folder / "model.safetensors")
    name = json.loads((folder / "config.json").read_text())["activation_function"].rpartition(".")[2]
    activation = getattr(torch.nn, name)()

    def compute(value: Tensor, _: Tensor) -> Tensor:
        made: Tensor = activation(torch.nn.functional.linear(value, stored["linear.weight"], stored.get("linear.bias")))
        return made

    return compute


def _normalize(_: Path) -> Compute:
    import torch

    return lambda value, _: torch.nn.functional.normalize(value, dim=-1)


_STEPS: Mapping[str, Callable[[Path], Compute]] = {"Pooling": _pooling, "Dense": _dense, "Normalize": _normalize}
