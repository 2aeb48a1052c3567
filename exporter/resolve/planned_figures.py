"""How the figures and units of a plan are written."""

from __future__ import annotations


def rounded(value: float) -> str:
    """Three digits, whole numbers from 100 on; below 1 two digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def megabytes(amount: float) -> str:
    """Bytes as MB of a million, whole from 100 on."""
    return f"{rounded(amount / 1e6)} MB"


def gigabytes(amount: float) -> str:
    """Bytes of a phone's memory as it is sold: in GB of 2**30."""
    return f"{amount / 2**30:.3g} GB"


def unit_name(system: str, unit: str) -> str:
    """A unit as people call it: ``CPU``, ``GPU``, ``NPU``, on iPhones and iPads ``Neural Engine``."""
    return "Neural Engine" if (system, unit) == ("ios", "npu") else unit.upper()
