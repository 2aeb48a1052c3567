"""Numbers as source code, which Swift and Kotlin write alike; a number without a literal of its type is refused."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

from edgec.errors import InputError

INT_BITS, LONG_BITS = 32, 64
"""Bits of Kotlin's Int and Long; Swift's Int has 64."""


def integer(what: str, value: object, bits: int = LONG_BITS) -> str:
    """A literal of a signed integer type.

    Raises:
        InputError: E469, the value is not an integer, or does not fit the type.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unwritable(what, f"{value!r:.60} is not an integer")
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise _unwritable(what, f"the integer needs {value.bit_length() + 1} bits, and its type has {bits}")
    return str(value)


def integers(what: str, values: Iterable[object], bits: int = LONG_BITS) -> str:
    """The elements of a list of integers; raises like ``integer``."""
    return ", ".join(integer(what, value, bits) for value in values)


def single(what: str, value: object) -> str:
    """A literal of a 32-bit float, without the suffix that Kotlin needs.

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
        raise _unwritable(what, f"{number} has no literal")
    if (kept == 0) != (number == 0):
        raise _unwritable(what, f"{number} is too small for a 32-bit float")
    return repr(number)


def _unwritable(what: str, why: str) -> InputError:
    return InputError(
        "a number of the bundle cannot be written as source code",
        where=what,
        why=why,
        fix="correct it in the model's config or generation_config.json, and export again",
        code="E469",
    )
