"""Numbers of an app's facts, whose types Swift and Kotlin have alike; one that its type cannot hold is refused."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

from edgec.errors import InputError

INT_BITS, LONG_BITS = 32, 64
"""Bits of Kotlin's Int and Long; Swift's Int has 64."""


def integer(what: str, value: object, bits: int = LONG_BITS) -> int:
    """A number that a signed integer type holds.

    Raises:
        InputError: E469, the value is not an integer, or does not fit the type.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unwritable(what, f"{value!r:.60} is not an integer")
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise _unwritable(what, f"the integer needs {value.bit_length() + 1} bits, and its type has {bits}")
    return value


def integers(what: str, values: Iterable[object], bits: int = LONG_BITS) -> list[int]:
    """The elements of a list of integers; raises like ``integer``."""
    return [integer(what, value, bits) for value in values]


def single(what: str, value: object) -> float:
    """A number that a 32-bit float holds.

    Raises:
        InputError: E469, the value is not a number, or becomes infinite or zero in 32 bits.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unwritable(what, f"{value!r:.60} is not a number")
    try:
        number = float(value)
        kept = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise _unwritable(what, "it is too large for a 32-bit float") from None
    if not math.isfinite(number):
        raise _unwritable(what, f"{number} is not a number of an app")
    if (kept == 0) != (number == 0):
        raise _unwritable(what, f"{number} is too small for a 32-bit float")
    return number


def _unwritable(what: str, why: str) -> InputError:
    return InputError(
        "an app cannot hold a number of the bundle",
        where=what,
        why=why,
        fix="correct it in the model's config or generation_config.json, and export again",
        code="E469",
    )
