"""Durations as people say them."""

from __future__ import annotations


def time_left(seconds: float) -> str:
    """Seconds as people say them: ``45 s``, ``28 min``, ``2 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def age(seconds: float) -> str:
    """A time gone by in whole units: ``45 s``, ``28 min``, ``5 h``, ``40 days``."""
    for unit, length, most in (("s", 1, 90), ("min", 60, 90), ("h", 3600, 48)):
        if seconds < length * most:
            return f"{max(seconds, 0) / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"
