"""Reading the state of phones from answers in the forms that different phones give."""

from __future__ import annotations

import pytest

from edgec.devices.adb.facts import PhoneState
from edgec.devices.adb.faults import refusal
from edgec.devices.adb.heat import cool

PIXEL = {
    "thermal": (
        "IsStatusOverride: false\nThermal Status: 1\nCached temperatures:\n"
        "\tTemperature{mValue=38.4, mType=3, mName=VIRTUAL-SKIN, mStatus=1}\n"
        "\tTemperature{mValue=61.0, mType=0, mName=BIG, mStatus=0}\n"
    ),
    "battery": "  AC powered: false\n  USB powered: true\n  level: 64\n  temperature: 315\n",
    "power": "  mWakefulness=Asleep\n",
    "cores": "0-8",
    "memory": "MemTotal:       11735208 kB",
    "load": "1.25 1.10 0.98 2/4000 12345",
    "governor": "sched_pixel\n",
    "clock": "2850000\n",
    "ro.product.manufacturer": "Google",
    "ro.product.model": "Pixel 8",
    "ro.soc.manufacturer": "Google",
    "ro.soc.model": "Tensor G3",
    "ro.build.version.release": "15",
    "ro.build.version.sdk": "35",
    "ro.product.cpu.abi": "arm64-v8a",
}


def test_a_phone_that_tells_everything() -> None:
    facts = PhoneState(PIXEL).facts()
    assert (facts.product, facts.cpu, facts.cores, facts.system) == (
        "Google Pixel 8",
        "Google Tensor G3",
        9,
        "Android 15 (SDK 35)",
    )
    assert (facts.temperature_c, facts.thermal_status, facts.battery_percent, facts.charging) == (38.4, 1, 64, True)
    assert (facts.screen_on, facts.governor, facts.clock_mhz, facts.simulated) == (False, "sched_pixel", 2850.0, False)


CACHED = "Cached temperatures:\n\tTemperature{mValue=29.0, mType=3, mName=VIRTUAL-SKIN, mStatus=0}\n"
COOLING = "Current cooling devices from HAL:\n\tCoolingDevice{mValue=2, mType=3, mName=thermal-cpufreq-2}\n"


def hal(*sensors: tuple[float, int]) -> str:
    lines = [f"\tTemperature{{mValue={value}, mType={kind}, mName=x, mStatus=0}}\n" for value, kind in sensors]
    return "Current temperatures from HAL:\n" + "".join(lines)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (CACHED + hal((61.0, 0), (38.5, 3)) + COOLING, 38.5),
        (hal((38.5, 3)) + COOLING + CACHED, 38.5),
        (CACHED + hal((61.0, 0)) + COOLING, 29.0),
        (CACHED + COOLING, 29.0),
        (COOLING, None),
    ],
)
def test_the_skin_s_temperature_is_the_current_one(said: str, expected: float | None) -> None:
    assert PhoneState({"thermal": f"Thermal Status: 0\n{said}"}).temperature_c == expected


def test_a_phone_that_tells_little() -> None:
    facts = PhoneState({"battery": PIXEL["battery"], "ro.board.platform": "kalama"}).facts()
    assert (facts.cpu, facts.temperature_c, facts.thermal_status) == ("kalama", 31.5, None)
    assert (facts.governor, facts.clock_mhz, facts.load_average, facts.screen_on) == (None, None, None, None)


@pytest.mark.parametrize(
    ("thermal", "battery", "expected"),
    [
        ("Thermal Status: 0\n", "temperature: 450", True),
        ("Thermal Status: 1\n", "  temperature: 369", True),
        ("Thermal Status: 1\n", "  temperature: 371", False),
        ("", "  temperature: 371", False),
        ("", "", True),
    ],
)
def test_cool_enough(thermal: str, battery: str, expected: bool) -> None:
    assert cool(PhoneState({"thermal": thermal, "battery": battery}), 37.0) is expected


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set", "E542"),
        ("no permissions (missing udev rules? user is in the plugdev group)", "E542"),
        ("device 'X' not found", "E541"),
        ("device offline", "E543"),
        ("closed", "E543"),
    ],
)
def test_what_adb_says(said: str, code: str) -> None:
    assert refusal(said, "adb:X").code == code
