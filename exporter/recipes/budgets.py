"""The names of budgets: figures of the parity ladder that a recipe or a caller may limit."""

from __future__ import annotations

BUDGETS = (
    "kl_mean",
    "kl_max",
    "top1_agreement",
    "max_abs",
    "mean_abs",
    "max_relative",
    "channel_relative",
    "probability",
    "equal_share",
)
