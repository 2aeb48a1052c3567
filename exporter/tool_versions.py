"""The versions an artifact depends on."""

from __future__ import annotations
