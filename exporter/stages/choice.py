"""Which stages a request takes: data, by the kind of model and the form of its artifact."""

from __future__ import annotations
