"""The learning rate over a run: a linear rise, then a cosine to a small share of the peak."""

from __future__ import annotations
