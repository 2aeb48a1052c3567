"""What one app may use: measured limits bound each other, and more memory is never a worse verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgec.devices.prediction.app_limit import AppLimit, app_limit, memory_that_fits
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


@pytest.mark.slow
@pytest.mark.parametrize("entitled", [False, True])
@pytest.mark.parametrize("system", ["ios", "android"])
def test_more_memory_is_never_a_worse_verdict(system: str, entitled: bool) -> None:
    bad, good = (Verdict.DOES_NOT_FIT, Verdict.UNLIKELY), (Verdict.LIKELY, Verdict.FITS)
    order = [*bad, Verdict.TIGHT, *good]
    for line in {phone.phone.split("-")[0] for phone in _phones(system)}:
        phones = sorted((p for p in _phones(system) if p.phone.startswith(line)), key=lambda p: p.memory_bytes or 0)
        for peak in range(500_000_000, 9_000_000_000, 250_000_000):
            verdicts = [
                judge(Range(peak, peak, peak, None), app_limit(each, with_entitlement=entitled), each.memory_bytes)
                for each in phones
            ]
            ranks = [order.index(verdict) for verdict in verdicts if verdict is not Verdict.UNKNOWN]
            assert ranks == sorted(ranks), (line, peak, verdicts)


def test_estimated_limits_are_told_as_likely_and_unlikely() -> None:
    """Nothing was measured of the phone itself, so only what exceeds its memory surely does not fit."""
    phone = load_target("galaxy-s24-ultra")
    found = app_limit(phone)
    assert found is not None and found.basis.count("OnePlus 12") == 1 and "Low confidence" in found.basis
    verdicts = [
        judge(Range(peak, peak, peak, None), found, phone.memory_bytes)
        for peak in (1_000_000_000, 6_000_000_000, 8_000_000_000, 13_000_000_000)
    ]
    assert verdicts == [Verdict.LIKELY, Verdict.TIGHT, Verdict.UNLIKELY, Verdict.DOES_NOT_FIT]


@pytest.mark.parametrize(
    ("name", "gigabytes"), [("mac-m4", 4), ("raspberry-pi-5", 6), ("iphone-17e", 6), ("snapdragon-x-elite-laptop", 6)]
)
def test_a_target_of_unknown_memory_is_told_how_much_it_needs(name: str, gigabytes: int) -> None:
    """Macs with 16 GB report 10,922.67 MiB for the GPU; iPhones with 4 GB grant 2.1 GB, with 6 at least 3.0."""
    target = load_target(name)
    assert memory_that_fits(target, 2.5e9) == gigabytes << 30
    assert memory_that_fits(replace(target, memory_bytes=8 << 30), 2.5e9) is None


def test_a_macs_gpu_gets_the_share_that_macos_recommends() -> None:
    found = app_limit(replace(load_target("mac-m1"), memory_bytes=16 << 30))
    assert found is not None and found.low_bytes / 2**20 == pytest.approx(10_922.67, abs=0.01)


@pytest.mark.long
def test_every_phone_gets_a_verdict_or_the_memory_that_it_needs() -> None:
    for target in all_targets():
        told = app_limit(target) is not None or memory_that_fits(target, 1e9) is not None
        assert told, target.name
