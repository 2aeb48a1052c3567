"""Checks of callers' arguments, made before anything else reads them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, Final

from edgec.errors import InputError

_MAX_ID: Final = (1 << 31) - 1


def check_ids(prompt: Any) -> list[int]:
    """A prompt as token ids: whole numbers of any kind, numpy's and torch's too.

    Raises:
        InputError: E152, it is not a sequence of token ids.
    """
    if isinstance(prompt, bytes):
        raise _no_prompt("bytes were given")
    try:
        ids = [index(token) for token in prompt]
    except TypeError as cause:
        raise _no_prompt(str(cause)) from cause
    if any(not 0 <= token <= _MAX_ID for token in ids):
        raise _no_prompt(f"ids from {min(ids)} to {max(ids)} were given")
    return ids


def stop_strings(stop: Any) -> tuple[str, ...]:
    """Stop strings as a tuple, from one string, several, or None.

    Raises:
        InputError: E156, something else is among them.
    """
    given = (stop,) if isinstance(stop, str) else () if stop is None else stop
    if not isinstance(given, Sequence | frozenset | set) or not all(isinstance(each, str) for each in given):
        raise InputError(f"stop is {stop!r:.60}.", where="stop", fix="give strings", code="E156")
    return tuple(given)


def _no_prompt(why: str) -> InputError:
    return InputError(
        "The prompt is neither text nor token ids.",
        where="prompt",
        why=why,
        fix="give a string, or whole numbers of this bundle's tokenizer",
        code="E152",
    )
