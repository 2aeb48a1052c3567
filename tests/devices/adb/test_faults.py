"""What goes wrong with a phone is survived or said clearly, and nothing is left behind on it (docs/devices.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgec.devices.adb import heat, link, workspace
from edgec.devices.transport import Conditions
from edgec.errors import EdgecError
from edgec.runtime_py.bench import bench
from tests.devices.adb.conftest import Plug
from tests.devices.phone.faults import Faults
from tests.devices.phone.phone import LoopbackPhone

SHORT: dict[str, Any] = {"prompt_tokens": 20, "new_tokens": 4, "warmups": 0}
GENERATED = b'"event":"generated"'


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait seconds, not minutes."""
    monkeypatch.setattr(link, "ANSWER_S", 5.0)
    monkeypatch.setattr(link, "BACK_S", 8.0)
    monkeypatch.setattr(heat, "POLL_S", 0.1)
    monkeypatch.setattr(workspace, "CHUNK", 200_000)


@dataclass(frozen=True)
class Case:
    """A fault and what must come of it: a code, or None where the run succeeds all the same."""

    faults: Callable[[], Faults]
    code: str | None
    prepare: Callable[[LoopbackPhone], None] = lambda phone: None
    environment: tuple[tuple[str, str], ...] = ()
    conditions: Conditions | None = None


def _full(phone: LoopbackPhone) -> None:
    (phone.says / "df").write_text("Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/x 100 99 1 99% /data\n")


CASES = {
    "unplugged mid-push, comes back": Case(partial(Faults, cut_push_after=700_000), None),
    "unplugged mid-push, three times": Case(partial(Faults, cut_push_after=400_000, cuts=3), None),
    "unplugged mid-run, comes back": Case(partial(Faults, cut_shell_at=GENERATED), "E543"),
    "unplugged mid-pull, comes back": Case(partial(Faults, cut_pull_of="results.jsonl"), None),
    "no space, known before": Case(Faults, "E545", _full),
    "no space, found out while pushing": Case(partial(Faults, full_after=900_000), "E545"),
    "runner killed": Case(Faults, "E547", environment=(("STAND_IN", "killed"),)),
    "wrong ABI": Case(Faults, "E546", lambda phone: phone.set_properties(ro_product_cpu_abi="armeabi-v7a")),
    "unauthorised": Case(partial(Faults, unauthorised=True), "E542"),
    "hung shell": Case(partial(Faults, hang="sh -c"), "E544", conditions=Conditions(silence_s=2.0)),
    "garbage on stdout": Case(Faults, "E548", environment=(("STAND_IN", "garbage"),)),
    "one file damaged on its way": Case(partial(Faults, corrupt=1), None),
    "every file damaged on its way": Case(partial(Faults, corrupt=1000), "E549"),
    "too hot for ever": Case(Faults, "E550", lambda phone: phone.set_heat(48.0, 3), (), Conditions(heat_timeout_s=0.3)),
}


@pytest.mark.parametrize("name", CASES)
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
        assert len(result.records) == 13
    else:
        with pytest.raises(EdgecError) as caught:
            bench(phone_bundle, f"adb:{phone.serial}", conditions=case.conditions, **SHORT)
        assert (caught.value.code, bool(caught.value.fix)) == (case.code, True)
        assert phone.serial in caught.value.where
    assert phone.left_behind() == []


def test_a_phone_that_never_comes_back_is_said_and_cleaned_by_the_next_run(plug: Plug, phone_bundle: Path) -> None:
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


def test_kept_files_are_not_sent_again(plug: Plug, phone_bundle: Path) -> None:
    phone = plug()
    keep = Conditions(keep=True)
    bench(phone_bundle, f"adb:{phone.serial}", conditions=keep, **SHORT)
    (kept,) = phone.left_behind()
    assert kept.startswith("edgec-kept-")
    said: list[str] = []
    bench(phone_bundle, f"adb:{phone.serial}", **SHORT, say=said.append)
    assert phone.left_behind() == [] and not any("pushing" in text for text in said)


def test_a_hot_phone_is_waited_for(plug: Plug, phone_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = plug()
    phone.set_heat(41.0, 1)
    waits: list[float] = []

    def cooled(seconds: float) -> None:
        waits.append(seconds)
        phone.set_heat(36.5, 1)

    monkeypatch.setattr(heat, "pause", cooled)
    bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
    assert waits == [heat.POLL_S]
