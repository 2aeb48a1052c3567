"""Turn text into token ids and back; whatever a tokenizer from outside raises becomes a typed error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from edgec.bundle.panics import panics_as_errors
from edgec.errors import EdgecError, InputError

_MARGIN_TOKENS, _CHARACTERS = 256, 8
"""Tokens at a cut that may read differently than in the whole text, and characters that a token rarely exceeds."""


def token_ids(
    tokenizer: Any, text: str, *, special: bool = True, enough: int | None = None, most: int | None = None
) -> list[int]:
    """Turn a text into token ids.

    Args:
        tokenizer: of transformers.
        text: what to encode.
        special: with the tokenizer's own leading and closing tokens.
        enough: a number of tokens; of a longer text, only a beginning with more tokens than that is read.
        most: cut a longer text to so many tokens, closing ones included, as the tokenizer cuts it.

    Raises:
        InputError: E152, the text is not valid Unicode; E158, the tokenizer cannot read it.
    """
    check_unicode(text)
    # A tokenizer that cuts texts at their beginning needs the end.
    if enough is not None and getattr(tokenizer, "truncation_side", "right") != "left":
        size = _CHARACTERS * (enough + _MARGIN_TOKENS)
        while size < len(text):
            ids = _ids(tokenizer, text[:size], special)
            if len(ids) > enough + _MARGIN_TOKENS:
                return ids if most is None else _ids(tokenizer, text[:size], special, most)
            size *= _CHARACTERS
    return _ids(tokenizer, text, special, most)


def _ids(tokenizer: Any, text: str, special: bool, most: int | None = None) -> list[int]:
    cut = {} if most is None else {"truncation": True, "max_length": most}
    try:
        with panics_as_errors():
            return [int(token) for token in tokenizer(text, add_special_tokens=special, **cut)["input_ids"]]
    except EdgecError:  # the limits', which say enough
        raise
    except Exception as cause:  # as its files say: tokenizers raises bare Exceptions, transformers all kinds.
        raise _unable("encode", cause) from cause


class PairIds(NamedTuple):
    """Two texts as one row of token ids, and 1 where a token belongs to the second."""

    tokens: list[int]
    second: list[int]


def pair_ids(tokenizer: Any, first: str, second: str) -> PairIds:
    """Turn two texts into one row with the tokenizer's own tokens before, between and after them.

    Raises:
        InputError: E152, a text is not valid Unicode; E158, the tokenizer cannot read them.
    """
    for text in (first, second):
        check_unicode(text)
    try:
        with panics_as_errors():
            made = tokenizer(first, second, return_token_type_ids=True)
        return PairIds([int(each) for each in made["input_ids"]], [int(each) for each in made["token_type_ids"]])
    except EdgecError:
        raise
    except Exception as cause:  # as above
        raise _unable("encode", cause) from cause


def decode_tokens(tokenizer: Any, tokens: Sequence[int], *, special: bool = False) -> str:
    """Turn token ids into text, with special tokens or without.

    Raises:
        InputError: E158, the tokenizer cannot say it.
    """
    try:
        with panics_as_errors():
            return str(
                tokenizer.decode(list(tokens), skip_special_tokens=not special, clean_up_tokenization_spaces=False)
            )
    except EdgecError:
        raise
    except Exception as cause:  # as above
        raise _unable("decode", cause) from cause


def check_unicode(text: str) -> None:
    """Refuse text that no tokenizer takes: bytes of a command line that are not UTF-8 arrive as lone surrogates.

    Raises:
        InputError: E152.
    """
    try:
        text.encode()
    except (UnicodeEncodeError, AttributeError) as cause:
        raise InputError(
            "The prompt is not valid Unicode text.", where="prompt", why=str(cause), fix="give UTF-8 text", code="E152"
        ) from cause


def _unable(verb: str, cause: Exception) -> InputError:
    return InputError(
        f"The tokenizer cannot {verb}.",
        where="tokenizer",
        why=f"{type(cause).__name__}: {cause}"[:300],
        fix="export the model again from a folder with a working tokenizer, or pass token ids",
        code="E158",
    )
