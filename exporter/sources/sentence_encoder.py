"""Sentence encoders in the layout of sentence-transformers: a model of token vectors, pooling, normalisation.

    modules.json            the parts in order: Transformer, Pooling, Normalize
    1_Pooling/config.json   how the vectors of a text's tokens become one
    sentence_bert_config.json   max_seq_length

The parts after the model are a few operators, so that the artifact's one output is the text's vector, on every target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from edgec.bundle.limited_json import JsonKind, read_json, read_object

TASK = "sentence-similarity"
INPUTS = ("input_ids", "attention_mask")
_MODULES = "modules.json"
_LENGTHS = ("sentence_bert_config.json", "sentence_transformer_config.json")
_KIND = JsonKind(
    what="A file that says how token vectors become a sentence's vector is not valid.",
    fix="copy the file again from the model's page, or export with --task feature-extraction for the tokens' vectors",
    code="E641",
)
_TOKENS = 512
_PARTS = ("Transformer", "Pooling", "Normalize")
_MODES: Mapping[str, str] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True)
class SentenceForm:
    """How a text's vector is made of its tokens' vectors.

    Attributes:
        pooling: ``mean``, ``cls``, ``max`` or ``lasttoken``.
        normalised: whether the vector has length 1.
        most_tokens: the longest text that the model's authors read, special tokens included; None: not stated.
        files: what was read.
    """

    pooling: str
    normalised: bool
    most_tokens: int | None
    files: tuple[Path, ...]


def sentence_form(folder: Path) -> SentenceForm | None:
    """Read the parts of a sentence encoder; None where the folder has no ``modules.json``.

    Raises:
        InputError: E641, a file is damaged, or there is a part or a pooling that edgec does not know.
    """
    listed = folder / _MODULES
    if not listed.is_file():
        return None
    parts = _parts(listed)
    names = [kind for kind, _ in parts]
    if names not in ([*_PARTS], [*_PARTS[:2]]):
        raise _KIND.refusal(listed, f"its parts are {', '.join(names)}; known: {', '.join(_PARTS)}")
    config = folder / parts[1][1] / "config.json"
    lengths = [folder / name for name in _LENGTHS if (folder / name).is_file()]
    most = read_object(lengths[0], _KIND).get("max_seq_length") if lengths else None
    return SentenceForm(
        pooling=_pooling(config),
        normalised=_PARTS[2] in names,
        most_tokens=most if isinstance(most, int) and most > 0 else None,
        files=(listed, config, *lengths[:1]),
    )


def _parts(listed: Path) -> list[tuple[str, str]]:
    """The kind and the folder of each part."""
    entries = read_json(listed, _KIND)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _KIND.refusal(listed, "it is not a list of parts")
    told = [(str(entry.get("type", "")).rpartition(".")[2], str(entry.get("path", ""))) for entry in entries]
    for _, path in told:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise _KIND.refusal(listed, f"the path {path!r} leaves the folder")
    return told


def _pooling(config: Path) -> str:
    told = read_object(config, _KIND)
    chosen = [name for name, value in told.items() if name.startswith("pooling_mode_") and value is True]
    stated = told.get("pooling_mode")
    modes = [_MODES.get(name, name) for name in chosen] or ([stated] if isinstance(stated, str) else [])
    if len(modes) != 1 or modes[0] not in _MODES.values():
        named = ", ".join(map(str, modes)) or "none"
        raise _KIND.refusal(config, f"the pooling is {named}; known is one of {', '.join(_MODES.values())}")
    return modes[0]


class SentenceVector(NamedTuple):
    """A text's vector [1, D]; the field's name is that of the artifact's output."""

    sentence_embedding: Tensor


class SentenceEncoder(nn.Module):
    """Makes one vector of a text.

    Args:
        model: takes ``input_ids`` and ``attention_mask``, int64 [1, T]; the first thing it returns are token vectors.
        form: how these become one.
    """

    def __init__(self, model: nn.Module, form: SentenceForm) -> None:
        super().__init__()
        self.model, self.form = model, form

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SentenceVector:
        """The vector of the tokens that the mask keeps; the rest is padding, on the right."""
        made = self.model(input_ids, attention_mask)
        tokens = made if isinstance(made, Tensor) else made[0]
        vector = _POOLINGS[self.form.pooling](tokens, attention_mask)
        return SentenceVector(_normalised(vector) if self.form.normalised else vector)


def _normalised(vector: Tensor) -> Tensor:
    # Core ML has no clamp for a value alone.
    return vector * (vector.square().sum(-1, keepdim=True) + 1e-12).rsqrt()


def _mean(tokens: Tensor, mask: Tensor) -> Tensor:
    kept = mask.unsqueeze(-1).to(tokens.dtype)
    return (tokens * kept).sum(1) / kept.sum(1)


def _largest(tokens: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask.unsqueeze(-1) > 0, tokens, torch.full_like(tokens, -1e9)).amax(1)


def _last(tokens: Tensor, mask: Tensor) -> Tensor:
    places = torch.arange(tokens.shape[1]).unsqueeze(0)
    last = (places == mask.sum(1, keepdim=True) - 1).unsqueeze(-1).to(tokens.dtype)
    return (tokens * last).sum(1)


_POOLINGS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "cls": lambda tokens, _: tokens[:, 0],
    "max": _largest,
    "lasttoken": _last,
}


def most_tokens(form: SentenceForm, config: Mapping[str, Any], first_place: int) -> int:
    """The longest text: what the authors read, as far as there are positions; 512 where nothing is stated.

    Args:
        form: the encoder's.
        config: the model's, as plain data.
        first_place: rows of the position table before the first token's.
    """
    stated = config.get("max_position_embeddings")
    positions = stated - first_place if isinstance(stated, int) and stated > first_place else None
    return min((size for size in (form.most_tokens, positions) if size is not None), default=_TOKENS)


def example_text(vocab_size: int, length: int, seed: int) -> dict[str, Tensor]:
    """Seeded tokens of which the last quarter is padding, so that what is hidden is compared too."""
    tokens = torch.randint(0, vocab_size, (1, length), generator=torch.Generator().manual_seed(seed))
    kept = length - length // 4
    return {"input_ids": tokens, "attention_mask": (torch.arange(length) < kept).long().unsqueeze(0)}


def check_inputs(main_input: str, folder: Path) -> None:
    """Refuse a sentence encoder whose model does not read tokens.

    Raises:
        InputError: E641.
    """
    if main_input != INPUTS[0]:
        raise _KIND.refusal(folder / _MODULES, f"the model's main input is {main_input!r}, not tokens")


def other_lengths(examples: Sequence[Tensor], longest: int) -> tuple[tuple[Tensor, ...], ...]:
    """Texts of one token and of the most, without padding, made of an example's tokens."""
    tokens = examples[0]
    repeated = tokens.repeat(1, -(-longest // tokens.shape[1]))
    return tuple((repeated[:, :n].contiguous(), torch.ones(1, n, dtype=torch.long)) for n in (1, longest))
