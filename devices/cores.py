"""Lists of CPU cores as people write them: ``4-7`` or ``0,2-3``."""

from __future__ import annotations

import re

from edgec.errors import InputError


def core_numbers(text: str) -> tuple[int, ...]:
    """The core numbers in a list with ranges, ascending.

    Raises:
        InputError: E156, the text has another form.
    """
    parts = [re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", part.strip()) for part in text.split(",")]
    ranges = [(int(part[1]), int(part[2] or part[1])) for part in parts if part]
    if len(ranges) != len(parts) or any(last < first for first, last in ranges):
        raise InputError(
            f"{text!r} is not a list of cores.", where="--cores", fix="write it like 4-7 or 0,2-3", code="E156"
        )
    return tuple(sorted({core for first, last in ranges for core in range(first, last + 1)}))
