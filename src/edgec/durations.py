"""Durations as people say them."""

from __future__ import annotations


def time_left(seconds: float) -> str:
    """Seconds as people say them: ``45 s``, ``28 min``, ``2 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
