"""Token ids in batches: what each step sees depends on the seed and the step alone, so that a run can be continued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.encoding import token_ids
from edgec.errors import InputError
from edgec.exporter.adapt.texts import Texts


@dataclass(frozen=True)
class Batches:
    """A text as token ids, from which sequences are drawn.

    Attributes:
        train: token ids, int64 [N], passages one after the other.
        held_out: sequences that are never trained on, int64 [M, length + 1].
        lead: the token that begins every text, or None.
        seed: of the order.
    """

    train: Tensor
    held_out: Tensor
    lead: int | None
    seed: int

    def at(self, number: int, batch: int, length: int) -> Tensor:
        """The sequences of one forward pass, int64 [batch, length + 1]: inputs and, shifted by one, what follows.

        Args:
            number: which pass since the beginning, over all processes.
            batch: sequences.
            length: tokens of a sequence.
        """
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        body = length + 1 - (self.lead is not None)
        starts = torch.randint(0, len(self.train) - body + 1, (batch,), generator=generator)
        rows = torch.stack([self.train[start : start + body] for start in starts.tolist()])
        return rows if self.lead is None else torch.nn.functional.pad(rows, (1, 0), value=self.lead)


def tokenize(texts: Texts, tokenizer: Any, length: int, held_out_tokens: int, seed: int) -> Batches:
    """Turn a text into token ids, in the sequences that training and measuring take.

    Args:
        texts: what to train on, and what is held out.
        tokenizer: transformers' tokenizer of the model.
        length: tokens of a sequence.
        held_out_tokens: how many to measure on at most; at least one sequence is taken.
        seed: of the order.

    Raises:
        InputError: E503, the text is shorter than a sequence.
    """
    lead = tokenizer.bos_token_id if _begins_with_lead(tokenizer) else None
    body = length + 1 - (lead is not None)
    train, held_out = _ids(tokenizer, texts.train), _ids(tokenizer, texts.held_out)[: max(held_out_tokens, body)]
    if min(len(train), len(held_out)) < body:
        raise InputError(
            what="there is too little text to train on",
            where=f"{len(train)} tokens, and {len(held_out)} held out",
            why=f"a sequence has {length} tokens",
            fix="give more text, or a smaller --length",
            code="E503",
        )
    rows = held_out[: len(held_out) // body * body].view(-1, body)
    if lead is not None:
        rows = torch.nn.functional.pad(rows, (1, 0), value=lead)
    return Batches(train, rows, lead, seed)


def _begins_with_lead(tokenizer: Any) -> bool:
    first = token_ids(tokenizer, "a")[:1]
    return bool(first) and first[0] == tokenizer.bos_token_id


def _ids(tokenizer: Any, passages: Sequence[str]) -> Tensor:
    ids = [token_ids(tokenizer, passage, special=False) for passage in passages]
    return torch.cat([torch.tensor(each, dtype=torch.int64) for each in ids])
