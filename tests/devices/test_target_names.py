"""Names as people write them mean the right phone; what means none, or several, is refused with the nearest ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.devices.target_names import nearest, same_words
from edgec.devices.targets import aliases, all_targets, load_target, phones
from edgec.errors import InputError


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("Galaxy S24 Ultra", "galaxy-s24-ultra"),
        ("Samsung Galaxy S25+", "galaxy-s25-plus"),
        ("s24 ultra", "galaxy-s24-ultra"),
        ("iphone 15 pro", "iphone-15-pro"),
        ("iPhone 15pro", "iphone-15-pro"),
        ("Apple iPhone 16 Pro Max", "iphone-16-pro-max"),
        ("iPhone 16 Pro CPU", "iphone-16-pro-cpu"),
        ("Google Pixel 9 Pro XL", "pixel-9-pro-xl"),
        ("Galaxy Z Fold 7", "galaxy-z-fold7"),
        ("Galaxy A35 5G", "galaxy-a35"),
        ("Xiaomi Redmi Note 13 Pro+ 5G", "redmi-note-13-pro-plus"),
        ("Nothing Phone (3a)", "nothing-phone-3a"),
        ("moto g84 5G", "moto-g84"),
        ("Find X9 Pro", "oppo-find-x9-pro"),
        ("Raspberry Pi 5", "raspberry-pi-5"),
        ("Mac M4", "mac-m4"),
    ],
)
def test_a_name_as_people_write_it_is_found(written: str, target: str) -> None:
    assert load_target(written) == load_target(target)


@pytest.mark.parametrize("key", phones())
def test_each_phone_is_found_by_its_name_in_shops(key: str) -> None:
    assert load_target(phones()[key]["name"].removeprefix("Apple ")).phone == key


def test_5g_is_never_dropped_since_it_is_another_phone() -> None:
    assert load_target("Redmi Note 13").chip == "snapdragon-685"
    assert load_target("Redmi Note 13 5G").chip == "dimensity-6080"
    for only_without in ("Redmi Note 12 5G", "Galaxy A05 5G"):
        with pytest.raises(InputError) as caught:
            load_target(only_without)
        assert caught.value.code == "E163"


@pytest.mark.parametrize(
    ("written", "offered"),
    [
        ("galaxy-s24", ("galaxy-s24-exynos", "galaxy-s24-snapdragon")),
        ("Galaxy S26+", ("galaxy-s26-plus-exynos", "galaxy-s26-plus-snapdragon")),
        ("Galaxy A16 5G", ("galaxy-a16-5g-exynos", "galaxy-a16-5g-dimensity")),
    ],
)
def test_a_phone_with_several_chips_offers_each(written: str, offered: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        load_target(written)
    assert caught.value.fix.startswith(f"did you mean {', '.join(offered)}?")
    assert caught.value.why == "that phone is sold with several chips"


@pytest.mark.parametrize(
    ("written", "first"),
    [("galaxy-s24-ulra", "galaxy-s24-ultra"), ("iphnoe", "iphone"), ("mac-m4-max", "mac-m4-max-32-core")],
)
def test_a_slip_offers_the_nearest_first(written: str, first: str) -> None:
    with pytest.raises(InputError) as caught:
        load_target(written)
    assert caught.value.fix.startswith(f"did you mean {first}, ")


@pytest.mark.parametrize("written", ["15", "", "huawei pura 70", "x" * 10**6, "\x00", "[bold]"])
def test_a_name_like_no_other_offers_nothing(written: str) -> None:
    with pytest.raises(InputError) as caught:
        load_target(written)
    assert caught.value.fix == "`edgec targets` lists them all"
    assert len(caught.value.what) < 100


def test_no_two_targets_are_the_same_letters_and_digits() -> None:
    names = [*aliases(), *(target.name for target in all_targets())]
    assert same_words(names) == {}
    assert same_words([*names, "iPhone 16Pro"]) == {"iphone16pro": ["iphone-16-pro", "iPhone 16Pro"]}


@pytest.mark.long
@given(st.text(max_size=40))
def test_any_text_offers_at_most_four_names(text: str) -> None:
    assert len(nearest(text, list(phones()), [target.name for target in all_targets()])) <= 4
