"""Medusa folders: ``medusa_lm_head.safetensors`` (or ``.pt``, a pickle) and ``config.json``.

Each head is blocks of ``x + silu(W x + b)`` and an lm_head of its own. The file is the state dict of a
``ModuleList`` of ``Sequential``: ``{head}.{block}.linear.weight``, ``.bias``, and ``{head}.{blocks}.weight``, which
the first releases left out, as their heads shared the model's lm_head (github.com/FasterDecoding/Medusa,
medusa_model.py and medusa_model_legacy.py; TensorRT-LLM reads the same names). The config's count of heads is too low
in published folders ("fix the uploaded config", says medusa_model.py), so more heads in the file are taken, fewer are
refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field
from torch import Tensor

from edgec.bundle.limited_json import JsonKind, read_model
from edgec.errors import InputError
from edgec.exporter.sources.files.model_folder import CONFIG
from edgec.exporter.sources.files.pickle_weights import open_pickles
from edgec.exporter.sources.files.plain_files import is_plain
from edgec.exporter.sources.files.safetensors_header import TensorEntry
from edgec.exporter.sources.weights.streamed import Weights, open_files
from edgec.passes.draft.head_weights import Block, Head, HeadsForm

FILE, PICKLE = "medusa_lm_head.safetensors", "medusa_lm_head.pt"
# Trainers that save the whole module put its name in front.
_PREFIX = re.compile(r"^medusa_heads?\.")
_NAME = re.compile(r"(\d{1,3})\.(\d{1,3})\.(?:linear\.)?(?:weight|bias)")
_MOST = 64


class MedusaConfig(BaseModel):
    """What a Medusa folder's config says; ``hidden_size`` and ``vocab_size`` only where the base's are repeated."""

    medusa_num_heads: Annotated[int, Field(ge=1, le=_MOST)]
    medusa_num_layers: Annotated[int, Field(ge=1, le=_MOST)] = 1
    base_model_name_or_path: str = ""


@dataclass(frozen=True)
class MedusaFolder:
    """The heads of a Medusa folder.

    Attributes:
        folder: holds the heads and their config.
        allow_pickle: read ``medusa_lm_head.pt`` where there are no safetensors.
    """

    folder: Path
    allow_pickle: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        """The file of the heads and their config."""
        safe = self.folder / FILE
        return (safe if is_plain(safe) else self.folder / PICKLE, self.folder / CONFIG)

    def form(self) -> HeadsForm:
        """How many heads of which sizes there are.

        Raises:
            InputError: E105, the file is damaged; E107, it is a pickle and pickles are not allowed; E843, the config
                is damaged; E844, a tensor is missing, unknown, or of another shape than the others.
        """
        entries, config = self._entries(), self._config()
        heads = self._heads(entries, config)
        blocks = config.medusa_num_layers
        first = entries.get("0.0.linear.weight")
        if first is None or len(first.shape) != 2 or first.shape[0] != first.shape[1] or not first.shape[0]:
            raise self._incomplete("there is no square matrix 0.0.linear.weight")
        width, own = first.shape[0], entries.get(f"0.{blocks}.weight")
        if own is not None and len(own.shape) != 2:
            raise self._incomplete(f"0.{blocks}.weight has shape {list(own.shape)}, not [vocabulary, hidden]")
        vocabulary = own.shape[0] if own is not None else None
        self._check(entries, _shapes(heads, blocks, width, vocabulary))
        return HeadsForm(heads, width, vocabulary)

    def read(self) -> tuple[Head, ...]:
        """The heads in order, their tensors in the dtype they are stored in. Raises as ``form``."""
        form, blocks, weights = self.form(), self._config().medusa_num_layers, self._weights()
        named = {_PREFIX.sub("", name): name for name in weights.names()}

        def block(head: int, place: int) -> Block:
            weight, bias = (weights.tensor(named[f"{head}.{place}.linear.{kind}"]) for kind in ("weight", "bias"))
            return Block(weight, bias)

        def lm_head(head: int) -> Tensor | None:
            return weights.tensor(named[f"{head}.{blocks}.weight"]) if form.vocabulary is not None else None

        return tuple(
            Head(tuple(block(head, place) for place in range(blocks)), lm_head(head)) for head in range(form.heads)
        )

    def misfit(self, why: str) -> InputError:
        """E843."""
        base = self._config().base_model_name_or_path
        return InputError(
            what="The Medusa heads belong to another model.",
            where=str(self.folder),
            why=why,
            fix=f"use them with the model they were trained on{f', {base}' if base else ''}",
            code="E843",
        )

    def _config(self) -> MedusaConfig:
        kind = JsonKind("The config of the Medusa heads is unusable.", "use the folder as it was published", "E843")
        return read_model(self.folder / CONFIG, MedusaConfig, kind)

    def _weights(self) -> Weights:
        file = self.files[0]
        if file.name == FILE:
            return open_files((file,))
        if not is_plain(file):
            raise self._incomplete(f"it holds neither {FILE} nor {PICKLE}")
        return open_pickles((file,), self.allow_pickle)

    def _entries(self) -> Mapping[str, TensorEntry]:
        names = self._weights().names()
        entries = {_PREFIX.sub("", name): entry for name, entry in names.items()}
        if len(entries) < len(names):
            raise self._incomplete("two tensors have the same name but for their prefix")
        return entries

    def _heads(self, entries: Mapping[str, TensorEntry], config: MedusaConfig) -> int:
        """The number of heads in the file: at least as many as the config says."""
        places = {int(match[1]) for match in map(_NAME.fullmatch, entries) if match}
        heads = max(places, default=-1) + 1
        if heads < config.medusa_num_heads or heads > _MOST:
            raise self._incomplete(f"the file holds {heads} heads, the config says {config.medusa_num_heads}")
        return heads

    def _check(self, entries: Mapping[str, TensorEntry], wanted: Mapping[str, tuple[int, ...]]) -> None:
        missing = sorted(wanted.keys() - entries.keys())
        unknown = sorted(entries.keys() - wanted.keys())
        lying = sorted(name for name in wanted.keys() & entries.keys() if entries[name].shape != wanted[name])
        if missing:
            raise self._incomplete(f"{len(missing)} tensors are missing, the first is {missing[0]}")
        if unknown:
            raise self._incomplete(f"nothing is known about its tensor {unknown[0]}")
        if lying:
            name = lying[0]
            raise self._incomplete(f"{name} has shape {list(entries[name].shape)}, not {list(wanted[name])}")
        odd = sorted(name for name, entry in entries.items() if not entry.dtype.is_floating_point)
        if odd:
            raise self._incomplete(f"{odd[0]} holds {entries[odd[0]].dtype}, not floats")

    def _incomplete(self, why: str) -> InputError:
        return InputError(
            what="The tensors of the Medusa heads are not those of their config.",
            where=str(self.files[0]),
            why=why,
            fix="use the folder as it was published",
            code="E844",
        )


def _shapes(heads: int, blocks: int, width: int, vocabulary: int | None) -> dict[str, tuple[int, ...]]:
    """All tensors by name."""
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(heads):
        for block in range(blocks):
            shapes[f"{head}.{block}.linear.weight"] = (width, width)
            shapes[f"{head}.{block}.linear.bias"] = (width,)
        if vocabulary is not None:
            shapes[f"{head}.{blocks}.weight"] = (vocabulary, width)
    return shapes
