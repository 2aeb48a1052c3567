"""Faults of a phone are survived or reported clearly, and nothing is left on the phone (docs/devices.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.devices.adb import heat
from edgec.devices.stopping import Stop
from edgec.devices.transport import Conditions
from edgec.errors import EdgecError
from edgec.runtime_py.bench.bench import bench
from tests.devices.adb.conftest import Plug
from tests.devices.adb.fault_cases import CASES, SHORT, be_impatient
from tests.devices.phone.faults import Faults


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_impatient(monkeypatch)


# A longer case of the one before it.
SLOW = ("unplugged mid-push, three times",)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CASES]
)
def test_a_fault_is_survived_or_said(
    name: str, plug: Plug, phone_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    for variable, value in case.environment:
        monkeypatch.setenv(variable, value)
    phone = plug(case.faults())
    case.prepare(phone)
    if case.code is None:
        result = bench(phone_bundle, f"adb:{phone.serial}", conditions=case.conditions, **SHORT)
        assert len(result.records) == 9
    else:
        with pytest.raises(EdgecError) as caught:
            bench(phone_bundle, f"adb:{phone.serial}", conditions=case.conditions, **SHORT)
        assert (caught.value.code, bool(caught.value.fix)) == (case.code, True)
        assert phone.serial in caught.value.where
    assert phone.left_behind() == []


@pytest.mark.long
def test_a_phone_that_never_comes_back_is_said_and_cleaned_by_the_next_run(
    plug: Plug, phone_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgec.devices.adb.link.BACK_S", 1.0)
    phone = plug(Faults(cut_push_after=900_000, gone=True))
    with pytest.raises(EdgecError, match="E543"):
        bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
    (folder,) = phone.left_behind()
    # The folder's name says that this very process made it; make it a dead one's.
    (phone.storage / folder).rename(phone.storage / "edgec-kept-0123abcd")
    phone.plug_in()
    phone.faults.pushed, whole = 0, (phone_bundle / "model.pte").stat().st_size
    bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
    assert phone.left_behind() == [] and phone.faults.pushed < whole


@pytest.mark.long
def test_kept_files_are_not_sent_again(plug: Plug, phone_bundle: Path) -> None:
    phone = plug()
    bench(phone_bundle, f"adb:{phone.serial}", conditions=Conditions(keep=True), **SHORT)
    (kept,) = phone.left_behind()
    assert kept.startswith("edgec-kept-")
    said: list[str] = []
    bench(phone_bundle, f"adb:{phone.serial}", **SHORT, say=said.append)
    assert phone.left_behind() == [] and not any("pushing" in text for text in said)


@pytest.mark.long
def test_a_hot_phone_is_waited_for(plug: Plug, phone_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = plug()
    phone.set_heat(41.0, 1)
    waits: list[float] = []

    def cooled(stopping: Stop, seconds: float, where: str) -> None:
        waits.append(seconds)
        phone.set_heat(36.5, 1)

    monkeypatch.setattr(Stop, "pause", cooled)
    bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
    assert waits == [heat.POLL_S]


@pytest.mark.slow
def test_a_long_pause_does_not_count_as_silence(plug: Plug, phone_bundle: Path) -> None:
    phone = plug()
    result = bench(phone_bundle, f"adb:{phone.serial}", conditions=Conditions(silence_s=1.5), cool_down_s=1.6, **SHORT)
    assert len(result.records) == 9
