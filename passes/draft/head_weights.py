"""Draft heads in one form, wherever they are stored: residual blocks, then the model's lm_head or one of their own.

hidden -> [+ silu(W hidden + b)] x blocks -> linear(lm_head)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from edgec.errors import InputError
from edgec.ir.spec import ModelSpec

if TYPE_CHECKING:
    from torch import Tensor

WEIGHT = "draft_heads"


@dataclass(frozen=True)
class HeadsForm:
    """What a store of draft heads says about itself, without its values.

    Attributes:
        heads: how many there are; head 1 guesses the token after the one that the model's own logits choose.
        width: of the hidden states they read.
        vocabulary: rows of their own lm_heads; None where they share the model's.
    """

    heads: int
    width: int
    vocabulary: int | None = None


@dataclass(frozen=True)
class Block:
    """One residual block, ``x + silu(weight x + bias)``: weight [H, H], bias [H] or None."""

    weight: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class Head:
    """The blocks of one head in order, and its own lm_head [V, H], or None for the model's."""

    blocks: tuple[Block, ...]
    lm_head: Tensor | None = None


class StoredHeads(Protocol):
    """A store of draft heads; implementations are frozen dataclasses whose fields say where it is."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the heads depend on."""

    def form(self) -> HeadsForm:
        """How many heads of which sizes there are.

        Raises:
            InputError: the store is damaged or contradicts itself.
        """

    def read(self) -> tuple[Head, ...]:
        """The heads in order, their tensors in the dtype they are stored in. Raises as ``form``."""

    def misfit(self, why: str) -> InputError:
        """The error for heads that belong to another model."""


def check_fit(source: StoredHeads, spec: ModelSpec | None) -> None:
    """Refuse heads of another model.

    Raises:
        InputError: the source's ``misfit``; what ``form`` raises.
    """
    form, width = source.form(), spec.hidden_size if spec else 0
    if form.width != width:
        raise source.misfit(f"they read hidden states of {form.width} values, the model's have {width}")
    if spec and form.vocabulary not in (None, spec.vocab_size):
        raise source.misfit(f"they know {form.vocabulary} tokens, the model {spec.vocab_size}")


@dataclass(frozen=True)
class HeadsFile:
    """Heads of one block without bias, as ``examples/train_heads.py`` writes them.

    Attributes:
        file: safetensors with ``draft_heads`` [heads, hidden, hidden].
    """

    file: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """The file itself."""
        return (self.file,)

    def form(self) -> HeadsForm:
        """How many heads of which width there are.

        Raises:
            InputError: E197, the file cannot be read or holds something else.
        """
        shape = tuple(self._weight().shape)
        if len(shape) != 3 or shape[0] < 1 or shape[1] != shape[2]:
            raise self.misfit(f"its {WEIGHT} has shape {list(shape)}, not [heads, hidden, hidden]")
        return HeadsForm(shape[0], shape[2])

    def read(self) -> tuple[Head, ...]:
        """The heads, float32. Raises as ``form``."""
        return tuple(Head((Block(weight),)) for weight in self._weight().float())

    def misfit(self, why: str) -> InputError:
        """E197."""
        return InputError(
            what="the draft heads do not fit the model",
            where=str(self.file),
            why=why,
            fix="train them on this very model: python -m examples.train_heads --help",
            code="E197",
        )

    def _weight(self) -> Tensor:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.file, "pt") as content:
                weight: Tensor = content.get_tensor(WEIGHT)
        except (OSError, SafetensorError) as cause:
            raise self.misfit(str(cause)) from cause
        return weight
