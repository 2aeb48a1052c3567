"""The same formats for LiteRT's delegate for GPUs, which has no operator to look up rows of float tables."""

from __future__ import annotations

from functools import partial

from edgec.backends.litert import model
from edgec.backends.litert.model import EXECUTED_BY, execute, layout

__all__ = ["EXECUTED_BY", "execute", "layout", "lower"]

lower = partial(model.lower, by_products=True)
