"""Compare what another runtime wrote, as pieces of text or as tokens, with the tokens and logits of edgec's.

Up to the first token that differs both have read the same. There the other's token is looked for among the likeliest:
where its logit is less than ``epsilon`` below the largest, two right executions may choose differently, and the rest of
that text, which then goes on otherwise, is not compared. Any other token is a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from edgec.bundle.encoding import decode_tokens

_LIKELIEST = 64


@dataclass(frozen=True)
class OwnText:
    """What edgec's runtime writes: token ids, and the logits [V] that chose each."""

    tokens: Sequence[int]
    rows: Sequence[Tensor]


@dataclass(frozen=True)
class Agreement:
    """How far a text is the same: over ``compared`` tokens, of which ``faults`` (0 or 1) are wrong.

    ``near_tie``: it ends before the other's does, at two tokens of nearly one logit. ``unspaced``: the other writes no
    spaces between words.
    """

    compared: int
    faults: int = 0
    near_tie: bool = False
    unspaced: bool = False


def agreement(tokenizer: Any, own: OwnText, pieces: Sequence[str], ends: Sequence[int], epsilon: float) -> Agreement:
    """Compare one text.

    Args:
        tokenizer: of the model.
        own: by edgec's runtime, of as many tokens as were asked for, or up to one that ends a text.
        pieces: by the other runtime, one for each token; fewer where it could not say one.
        ends: ids that end a text; their pieces may be anything.
        epsilon: how far two logits of right executions may differ.
    """
    spaced = any(" " in piece for piece in pieces)
    unspaced = not spaced and " " in decode_tokens(tokenizer, own.tokens).strip()
    found = partial(Agreement, unspaced=unspaced)
    for place, token in enumerate(own.tokens[: len(pieces)]):
        said = _spaced("".join(pieces[: place + 1]), spaced)
        if token in ends and place == len(pieces) - 1:
            return found(place + 1)
        before = own.tokens[:place]
        if said != _text(tokenizer, [*before, token], spaced):
            near = _near(own.rows[place], epsilon)
            tie = any(said == _text(tokenizer, [*before, each], spaced) or each in ends for each in near)
            return found(place, near_tie=True) if tie else found(place + 1, faults=1)
    if len(pieces) > len(own.tokens):
        return found(len(own.tokens) + 1, faults=1)
    return found(len(pieces))


def token_agreement(own: OwnText, tokens: Sequence[int], epsilon: float) -> Agreement:
    """Compare one text that another runtime tells as tokens; arguments as of ``agreement``."""
    for place, token in enumerate(own.tokens):
        other = tokens[place] if place < len(tokens) else None
        if other != token:
            row = own.rows[place]
            near = other is not None and float(row.max() - row[other]) <= epsilon
            return Agreement(place, near_tie=True) if near else Agreement(place + 1, faults=1)
    return Agreement(len(own.tokens)) if len(tokens) == len(own.tokens) else Agreement(len(own.tokens) + 1, faults=1)


def text_agreement(tokenizer: Any, own: OwnText, text: str, ends: Sequence[int], epsilon: float) -> Agreement:
    """Compare one text that another runtime tells as a whole; arguments as of ``agreement``."""
    said = _whole(text)
    for place, token in enumerate(own.tokens):
        before = own.tokens[:place]
        if token in ends and said == _shown(tokenizer, before):
            return Agreement(place + 1)
        if not said.startswith(_shown(tokenizer, [*before, token])):
            # Another token may say what the own one begins with, so that texts part after tokens do.
            ties = (at for at in range(place + 1) if _other_near(tokenizer, own, at, said, ends, epsilon))
            tied = next(ties, None)
            return Agreement(place + 1, faults=1) if tied is None else Agreement(tied, near_tie=True)
    same = said == _shown(tokenizer, own.tokens)
    return Agreement(len(own.tokens) + (not same), faults=int(not same))


def _other_near(tokenizer: Any, own: OwnText, place: int, said: str, ends: Sequence[int], epsilon: float) -> bool:
    """Whether another token of nearly the same logit leads on in the other's text."""
    before = own.tokens[:place]
    return any(
        said == _shown(tokenizer, before) if each in ends else said.startswith(_shown(tokenizer, [*before, each]))
        for each in _near(own.rows[place], epsilon)
        if each != own.tokens[place]
    )


def _near(row: Tensor, epsilon: float) -> list[int]:
    """The tokens whose logits are within ``epsilon`` of the largest."""
    likeliest: list[int] = row.topk(min(_LIKELIEST, len(row))).indices.tolist()
    return [each for each in likeliest if row.max() - row[each] <= epsilon]


def _shown(tokenizer: Any, tokens: Sequence[int]) -> str:
    return _whole(decode_tokens(tokenizer, tokens))


def _whole(text: str) -> str:
    """A text without the characters at its end that its last tokens say in part."""
    return text.rstrip("\ufffd").strip()


def _text(tokenizer: Any, tokens: Sequence[int], spaced: bool) -> str:
    return _spaced(decode_tokens(tokenizer, tokens, special=True), spaced)


def _spaced(text: str, spaced: bool) -> str:
    """A text as it is compared: without spaces where one of the two writes none between words."""
    return text.strip() if spaced else text.replace(" ", "")
