"""``--format``: a target's unit of the phone with another kind of artifact."""

from __future__ import annotations
