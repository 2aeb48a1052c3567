"""The convolutions and recurrent layers that have more bits than the recipe asks for, in words.

    12 convolutions in 8 bits, 413,184 bytes (XNNPACK's convolutions read 8 bits, with a scale for each output channel)

A recipe of 4 bits that silently leaves nine tenths of a network in float says nothing of its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgec.ir.weight_decision import Decision

_NAMES = {"convolution": "convolution", "recurrence": "recurrent matrix"}
_PLURALS = {"convolution": "convolutions", "recurrence": "recurrent matrices"}
_SHOWN = 3


def wider_line(decisions: Iterable[Decision]) -> str:
    """What has more bits than were asked for, with its bytes and why; empty where nothing has.

    Args:
        decisions: on every tensor of a graph.
    """
    groups: dict[tuple[str, int, str], list[Decision]] = {}
    for each in decisions:
        if each.role in _NAMES and each.requested is not None and each.container_bits > each.requested.bits:
            groups.setdefault((each.role, each.container_bits, each.reason), []).append(each)
    return "; ".join(_group(role, bits, reason, part) for (role, bits, reason), part in groups.items())


def _group(role: str, bits: int, reason: str, part: Sequence[Decision]) -> str:
    """One group: ``2 convolutions in float, 9,216 bytes (features.0.weight, features.1.weight: its weight is ...)``."""
    count, size = len(part), sum(each.bytes for each in part)
    kept = part[0].used is None
    names = ", ".join(each.name for each in part[:_SHOWN]) + (f" and {count - _SHOWN} more" if count > _SHOWN else "")
    why = f"{names}: {reason}" if kept else reason
    stored = "float" if kept else f"{bits} bits"
    return f"{count} {_NAMES[role] if count == 1 else _PLURALS[role]} in {stored}, {size:,} bytes ({why})"
