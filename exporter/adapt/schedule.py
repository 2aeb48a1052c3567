"""The learning rate over a run: a linear rise, then a cosine to a small share of the peak."""

from __future__ import annotations

import math

from edgec.exporter.adapt.settings import Settings


def rate(step: int, settings: Settings) -> float:
    """The share of the peak learning rate at an update, 0..1.

    Args:
        step: updates done so far.
        settings: length of the run, of its warm-up, and the last share.
    """
    rise = max(1, round(settings.warm_up * settings.steps))
    if step < rise:
        return (step + 1) / rise
    way = (step - rise) / max(1, settings.steps - rise)
    return settings.final_rate + (1 - settings.final_rate) * 0.5 * (1 + math.cos(math.pi * way))
