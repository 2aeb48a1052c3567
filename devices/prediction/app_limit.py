"""What the system lets one app use: a limit that was measured, held against phones with less and with more memory.

Apple publishes no limits, and iOS versions differ: an 8 GB phone was granted less than a 6 GB one. A phone with more
memory grants no less, so each known limit bounds those of larger phones from below and of smaller ones from above;
where two contradict each other, both ends are kept, and a larger phone is never judged worse than a smaller one.

Android, macOS, Linux and Windows have no such limit; memory runs out, and then the system ends apps or swaps. There the
bounds are shares of the memory (``_SHARES``), each with what is behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgec.devices.targets import Target, all_targets


@dataclass(frozen=True)
class AppLimit:
    """Bytes that an app may use.

    Attributes:
        low_bytes: granted at least, as far as is known.
        high_bytes: granted at most.
        phone_name: where the lower bound was measured.
        how: ``measured`` on a phone, or ``estimated``, a share of the memory.
        basis: of an estimate, what is behind it and how far to trust it.
    """

    low_bytes: int
    high_bytes: int
    phone_name: str
    how: str = "measured"
    basis: str = ""


@dataclass(frozen=True)
class _Share:
    """The share of a system's memory that an app is likely to get, and above which it is unlikely to."""

    likely: float
    unlikely: float
    basis: str


_SHARES: Mapping[str, _Share] = {
    "android": _Share(
        0.44,
        0.5,
        "Android has no fixed limit, and ends apps when memory runs out. Low confidence, from two reports: an app ran "
        "with 44 % of a phone's memory (OnePlus 12), and one was ended at 50 % (Galaxy S23)",
    ),
    "macos": _Share(
        2 / 3,
        3 / 4,
        "macOS recommends that much for its GPU. Medium confidence: llama.cpp's users logged 2/3 of the memory on Macs "
        "with 16 and 32 GB, and 3/4 on those with 64 and 96 GB",
    ),
    "linux": _Share(0.5, 1.0, "Linux has no limit but the memory itself. Assumed: half of it is free"),
    "windows": _Share(0.5, 1.0, "Windows has no limit but the memory itself. Assumed: half of it is free"),
}
"""Android: react-native-executorch's benchmarks (7.49 of 16 GiB), pytorch/executorch issues/3599 (Llama 2 7B on 8 GB).
Macs: ise-uiuc/magicoder issues/19, ollama/ollama issues/434, ggml-org/llama.cpp issues/1870 and issues/3213."""

_SOLD_GB = (4, 6, 8, 12, 16, 18, 24, 32, 36, 48, 64, 96, 128, 192, 256, 512)


def app_limit(target: Target, *, with_entitlement: bool = False) -> AppLimit | None:
    """The limit of one app on a target; None where nothing is known.

    Args:
        target: a phone; its memory must be known unless its own limit is.
        with_entitlement: with iOS's increased-memory-limit entitlement.
    """
    field = "app_limit_entitled_bytes" if with_entitlement else "app_limit_bytes"
    own, memory = getattr(target, field), target.memory_bytes
    if own is not None and memory is None:
        return AppLimit(own, own, target.phone_name)
    if memory is None:
        return None
    share = _SHARES.get(target.os)
    if share is not None and own is None:
        bounds = (int(share.likely * memory), int(share.unlikely * memory))
        return AppLimit(*bounds, target.phone_name, "estimated", share.basis)
    return _between(_known(target, field), memory)


def memory_that_fits(target: Target, peak_bytes: float) -> int | None:
    """The least memory, in bytes, with which an app of such a peak is likely to fit a target whose own is unknown.

    None where the target's memory is known, or no phone of its line is known to grant as much.
    """
    if target.memory_bytes is not None:
        return None
    share = _SHARES.get(target.os)
    if share is not None:
        sizes = (size << 30 for size in _SOLD_GB)
        return next((size for size in sizes if peak_bytes <= share.likely * size), None)
    line = {(memory, limit) for memory, limit, _ in _known(target, "app_limit_bytes")}
    return min((memory for memory, limit in line if peak_bytes <= limit), default=None)


def _known(target: Target, field: str) -> list[tuple[int, int, str]]:
    """Memory, limit and name of the target's line of phones (iPhones, iPads), where both are known."""
    line = target.phone.split("-")[0]
    others = (each for each in all_targets() if each.phone.split("-")[0] == line and each.phone != target.phone)
    named = {(each.memory_bytes, getattr(each, field), each.phone_name) for each in (*others, target)}
    return [(memory, limit, name) for memory, limit, name in named if memory and limit]


def _between(known: list[tuple[int, int, str]], memory: int) -> AppLimit | None:
    """The bounds that limits of phones with at most, and with at least, so much memory set."""
    below = [(limit, name) for size, limit, name in known if size <= memory]
    above = [(limit, name) for size, limit, name in known if size >= memory]
    if not below:
        return None
    at_least, at_most = max(below), min(above, default=(memory, ""))
    low, high = sorted((at_least, at_most))
    return AppLimit(low[0], high[0], low[1])
