"""What the system lets one app use: a limit that was measured, held against phones with less and with more memory.

Apple publishes no limits, and iOS versions differ: an 8 GB phone was granted less than a 6 GB one. A phone with more
memory grants no less, so each known limit bounds those of larger phones from below and of smaller ones from above;
where two contradict each other, both ends are kept, and a larger phone is never judged worse than a smaller one.

Android has no limit for native memory: the low-memory killer ends apps when the system runs out. There the bounds are
shares of the phone's memory: an app has run with 44 % of it (7.49 of 16 GiB on a OnePlus 12, react-native-executorch's
benchmarks), and one was ended at half of it (Llama 2 7B on a Galaxy S23 of 8 GB, github.com/pytorch/executorch
issues/3599).
"""

from __future__ import annotations

from dataclasses import dataclass

from edgec.devices.targets import Target, all_targets

_RAN, _ENDED = 0.44, 0.5


@dataclass(frozen=True)
class AppLimit:
    """Bytes that an app may use.

    Attributes:
        low_bytes: granted at least, as far as is known.
        high_bytes: granted at most.
        phone_name: where the lower bound was measured.
        how: ``measured`` on a phone, or ``estimated``, a share of the memory.
    """

    low_bytes: int
    high_bytes: int
    phone_name: str
    how: str = "measured"


def app_limit(target: Target, *, with_entitlement: bool = False) -> AppLimit | None:
    """The limit of one app on a target; None where nothing is known.

    Args:
        target: a phone; its memory must be known unless its own limit is.
        with_entitlement: with iOS's increased-memory-limit entitlement.
    """
    field = "app_limit_entitled_bytes" if with_entitlement else "app_limit_bytes"
    own, memory = getattr(target, field), target.memory_bytes
    if target.os == "android" and own is None and memory is not None:
        return AppLimit(int(_RAN * memory), int(_ENDED * memory), target.phone_name, "estimated")
    if own is not None and memory is None:
        return AppLimit(own, own, target.phone_name)
    if memory is None:
        return None
    return _between(_known(target, field), memory)


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
