"""Many values as a median and its surroundings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.harness.results import Spread


def spread(values: Sequence[float]) -> Spread:
    """Median, quartiles, extremes and count; there must be a value."""
    low, q1, median, q3, high = (float(v) for v in np.percentile(values, [0, 25, 50, 75, 100]))
    return Spread(median=median, low=low, q1=q1, q3=q3, high=high, count=len(values))
