"""Numbers as Swift and Kotlin source, which both write them alike; what has no literal of its type is refused."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

from edgec.errors import InputError

INT_BITS, LONG_BITS = 32, 64
"""Swift's Int has 64 bits, Kotlin's has 32 and its Long 64."""


def integer(what: str, value: object, bits: int = LONG_BITS) -> str:
    """A literal of a signed integer type.

    Raises:
        InputError: E469, it is no integer, or one that the type does not hold.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unwritable(what, f"{value!r:.60} is not an integer")
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise _unwritable(what, f"an integer of {value.bit_length() + 1} bits where {bits} are held")
    return str(value)


def integers(what: str, values: Iterable[object], bits: int = LONG_BITS) -> str:
    """The elements of a list of integers. Raises as `integer`."""
    return ", ".join(integer(what, value, bits) for value in values)


def single(what: str, value: object) -> str:
    """A literal of a float of 32 bits, without the suffix that Kotlin wants.

    Raises:
        InputError: E469, it is not a number, or one that becomes infinite or zero in 32 bits.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unwritable(what, f"{value!r:.60} is not a number")
    try:
        number = float(value)
        kept = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise _unwritable(what, "it is too large for a float of 32 bits") from None
    if not math.isfinite(number):
        raise _unwritable(what, f"{number} has no literal")
    if (kept == 0) != (number == 0):
        raise _unwritable(what, f"{number} is too small for a float of 32 bits")
    return repr(number)


def _unwritable(what: str, why: str) -> InputError:
    return InputError(
        "a number of the bundle cannot be written as source code",
        where=what,
        why=why,
        fix="correct it in the model's config or generation_config.json, and export again",
        code="E469",
    )
