"""What one app may use: measured limits bound each other, and more memory is never a worse verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgec.devices.prediction.app_limit import AppLimit, app_limit
from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.memory_fit import Verdict, judge
from edgec.devices.targets import Target, all_targets, load_target


def test_a_limit_without_contradictions_is_itself() -> None:
    found = app_limit(load_target("iphone-13-pro"), with_entitlement=True)
    assert found == AppLimit(4_200_000_000, 4_200_000_000, "Apple iPhone 13 Pro")


def test_contradictory_limits_are_both_kept() -> None:
    """6 GB were granted 3.12 GB, and 8 GB only 3.0: either holds for both phones."""
    six, eight = (app_limit(load_target(name)) for name in ("iphone-13-pro", "iphone-15-pro"))
    assert six is not None and eight is not None
    assert (six.low_bytes, six.high_bytes) == (eight.low_bytes, eight.high_bytes) == (3_000_000_000, 3_120_000_000)


def test_an_unknown_limit_is_bounded_by_other_phones() -> None:
    same, more = (app_limit(load_target(name), with_entitlement=True) for name in ("iphone-16-pro", "iphone-17-pro"))
    assert same == AppLimit(6_000_000_000, 6_000_000_000, "Apple iPhone 15 Pro")
    assert more is not None and (more.low_bytes, more.high_bytes) == (
        6_000_000_000,
        load_target("iphone-17-pro").memory_bytes,
    )


def test_androids_bounds_are_shares_of_the_memory() -> None:
    phone = load_target("galaxy-s24-ultra")
    found = app_limit(phone)
    assert phone.memory_bytes is not None and found is not None and found.how == "estimated"
    # The run that succeeded, and the one that did not: docs/plan.md.
    assert 7.49e9 / 17.18e9 < found.low_bytes / phone.memory_bytes < found.high_bytes / phone.memory_bytes <= 0.5
    assert app_limit(replace(phone, memory_bytes=None)) is None


def _phones(system: str) -> list[Target]:
    return list({t.phone: t for t in all_targets() if t.os == system and t.memory_bytes}.values())


@pytest.mark.parametrize("entitled", [False, True])
@pytest.mark.parametrize("system", ["ios", "android"])
def test_more_memory_is_never_a_worse_verdict(system: str, entitled: bool) -> None:
    order = [Verdict.DOES_NOT_FIT, Verdict.TIGHT, Verdict.FITS]
    for line in {phone.phone.split("-")[0] for phone in _phones(system)}:
        phones = sorted((p for p in _phones(system) if p.phone.startswith(line)), key=lambda p: p.memory_bytes or 0)
        for peak in range(500_000_000, 9_000_000_000, 250_000_000):
            verdicts = [
                judge(Range(peak, peak, peak, None), app_limit(each, with_entitlement=entitled), each.memory_bytes)
                for each in phones
            ]
            ranks = [order.index(verdict) for verdict in verdicts if verdict is not Verdict.UNKNOWN]
            assert ranks == sorted(ranks), (line, peak, verdicts)
