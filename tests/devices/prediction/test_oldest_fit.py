"""The oldest iPhone that fits, by system, chip and memory, and the sentence that says why."""

from __future__ import annotations

import pytest

from edgec.devices.prediction.oldest_fit import minimum_os, oldest_fit
from edgec.errors import InputError


@pytest.mark.parametrize(
    ("gigabytes", "form", "phone", "entitled"),
    [
        (0.4, "mlpackage", "iphone-13", False),
        (2.3, "mlpackage", "iphone-13", True),
        (3.0, "mlpackage", "iphone-13-pro", False),
        (4.0, "mlpackage", "iphone-13-pro", True),
        (5.0, "mlpackage", "iphone-15-pro", True),
        (0.4, "aimodel", "iphone-15-pro", False),
    ],
)
def test_the_oldest_phone_that_fits(gigabytes: float, form: str, phone: str, entitled: bool) -> None:
    choice = oldest_fit(int(gigabytes * 1e9), form)
    assert (choice.target.phone, choice.entitled) == (phone, entitled)
    assert choice.target.format == form and choice.target.unit == "npu"
    assert choice.target.phone_name in choice.reason and "estimated" in choice.reason
    assert ("entitlement" in choice.reason) == entitled


def test_the_reason_names_the_phone_before_and_what_it_lacks() -> None:
    assert (
        "iPhone 15 Plus does not fit: aimodel needs a chip other than its Apple A16"
        in oldest_fit(10**8, "aimodel").reason
    )
    assert "only 4.2 GB" in oldest_fit(5 * 10**9, "mlpackage").reason


def test_a_newer_system_than_any_phone_is_known_to_run_fits_none() -> None:
    with pytest.raises(InputError) as caught:
        oldest_fit(10**8, "mlpackage", minimum="99.0")
    assert caught.value.code == "E467" and "iOS 99.0" in caught.value.why


def test_too_large_a_model_fits_none() -> None:
    with pytest.raises(InputError) as caught:
        oldest_fit(10**11, "mlpackage")
    assert caught.value.code == "E467" and "granted only" in caught.value.why


def test_formats_state_their_oldest_system() -> None:
    assert minimum_os("mlpackage", "coreml") == minimum_os("pte", "coreml") == "18.0"
    assert minimum_os("aimodel", "coreai") == "27.0"
