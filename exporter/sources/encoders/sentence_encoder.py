"""Sentence encoders: a model of token vectors, and after it pooling, dense layers and normalisation as operators.

    input_ids, attention_mask [1, T] -> model -> [1, T, D] -> pooling over the mask -> dense -> / length -> [1, D']

So the artifact's one output is the text's vector, on every target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgec.bundle.sentence_prompts import READ_ONLY
from edgec.errors import InputError
from edgec.exporter.sources.encoders.sentence_form import SentenceForm
from edgec.exporter.sources.weight_choice import stored_weights


class SentenceVector(NamedTuple):
    """A text's vector [1, D]; the field's name is that of the artifact's output."""

    sentence_embedding: Tensor


class SentenceEncoder(nn.Module):
    """Makes one vector of a text.

    Args:
        model: takes ``input_ids`` and ``attention_mask``, int64 [1, T]; the first thing it returns are token vectors.
        form: how these become one.
        dense: the layers after pooling.
    """

    def __init__(self, model: nn.Module, form: SentenceForm, dense: Sequence[nn.Module] = ()) -> None:
        super().__init__()
        self.model, self.form, self.dense = model, form, nn.Sequential(*dense)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SentenceVector:
        """The vector of the tokens that the mask keeps; the rest is padding, on the right.

        Where a prompt is not pooled, its tokens, which are the first, have ``READ_ONLY`` in the mask.
        """
        read = pooled = attention_mask
        if not self.form.pools_prompt:
            read, pooled = (attention_mask > 0).long(), (attention_mask == 1).long()
        made = self.model(input_ids, read)
        tokens = made if isinstance(made, Tensor) else made[0]
        vector = self.dense(_POOLINGS[self.form.pooling](tokens, read, pooled))
        return SentenceVector(_normalised(vector) if self.form.normalised else vector)


def _normalised(vector: Tensor) -> Tensor:
    # Core ML has no clamp for a value alone.
    return vector * (vector.square().sum(-1, keepdim=True) + 1e-12).rsqrt()


def _mean(tokens: Tensor, _: Tensor, pooled: Tensor) -> Tensor:
    kept = pooled.unsqueeze(-1).to(tokens.dtype)
    return (tokens * kept).sum(1) / kept.sum(1)


def _largest(tokens: Tensor, _: Tensor, pooled: Tensor) -> Tensor:
    return torch.where(pooled.unsqueeze(-1) > 0, tokens, torch.full_like(tokens, -1e9)).amax(1)


def _last(tokens: Tensor, read: Tensor, _: Tensor) -> Tensor:
    return _at(tokens, read.sum(1, keepdim=True) - 1)


def _first(tokens: Tensor, read: Tensor, pooled: Tensor) -> Tensor:
    return tokens[:, 0] if pooled is read else _at(tokens, (read - pooled).sum(1, keepdim=True))


def _at(tokens: Tensor, place: Tensor) -> Tensor:
    places = torch.arange(tokens.shape[1]).unsqueeze(0)
    return (tokens * (places == place).unsqueeze(-1).to(tokens.dtype)).sum(1)


_POOLINGS: Mapping[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "cls": _first,
    "max": _largest,
    "lasttoken": _last,
}


def dense_layers(form: SentenceForm, seed: int | None, allow_pickle: bool) -> tuple[nn.Module, ...]:
    """The layers after pooling, with their weights in float32.

    Args:
        form: as read.
        seed: of random weights; None: the stored ones.
        allow_pickle: open pickled weights (data only).

    Raises:
        InputError: E105, E107 or E112, the weights cannot be read; E106, they are not those of the config.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed or 0)
        layers = [nn.Linear(part.in_features, part.out_features, part.bias) for part in form.dense]
    if seed is None:
        for part, layer in zip(form.dense, layers, strict=True):
            _load(layer, part.folder, allow_pickle)
    pairs = zip(layers, form.dense, strict=True)
    return tuple(made for layer, part in pairs for made in (layer, getattr(nn, part.activation)()))


def dense_files(form: SentenceForm, allow_pickle: bool) -> tuple[Path, ...]:
    """The files that hold the weights of the layers after pooling."""
    return tuple(file for part in form.dense for file in stored_weights(part.folder, allow_pickle).files)


def _load(layer: nn.Linear, folder: Path, allow_pickle: bool) -> None:
    stored = stored_weights(folder, allow_pickle)
    parameters = {f"linear.{name}": value for name, value in layer.named_parameters()}
    expected = {name: tuple(value.shape) for name, value in parameters.items()}
    stored_shapes = {name: tuple(entry.shape) for name, entry in stored.names().items()}
    if stored_shapes != expected:
        raise InputError(
            what="The weights of a Dense part are not those of its config.",
            where=str(folder),
            why=f"there are {stored_shapes}, expected {expected}",
            fix="copy the folder again from the model's page",
            code="E106",
        )
    with torch.no_grad():
        for name, value in parameters.items():
            value.copy_(stored.tensor(name))


def example_text(vocab_size: int, length: int, seed: int, read_only: bool = False) -> dict[str, Tensor]:
    """Seeded tokens of which the last quarter is padding, so that what is hidden is compared too.

    Args:
        vocab_size: how many tokens there are.
        length: of the row.
        seed: of the tokens.
        read_only: the first quarter is a prompt that is not pooled.
    """
    tokens = torch.randint(0, vocab_size, (1, length), generator=torch.Generator().manual_seed(seed))
    kept = length - length // 4
    mask = (torch.arange(length) < kept).long()
    if read_only:
        mask[: length // 4] = READ_ONLY
    return {"input_ids": tokens, "attention_mask": mask.unsqueeze(0)}


def other_lengths(examples: Sequence[Tensor], longest: int) -> tuple[tuple[Tensor, ...], ...]:
    """Texts of one token and of the most, without padding, made of an example's tokens."""
    tokens = examples[0]
    repeated = tokens.repeat(1, -(-longest // tokens.shape[1]))
    return tuple((repeated[:, :n].contiguous(), torch.ones(1, n, dtype=torch.long)) for n in (1, longest))
