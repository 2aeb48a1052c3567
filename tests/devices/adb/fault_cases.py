"""Faults of a phone with their expected outcomes; ``test_faults.py`` checks them, ``fault_table.py`` prints them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from edgec.devices.adb import heat, link, workspace
from edgec.devices.transport import Conditions
from edgec.runtime_py.bench import run as bench_run
from tests.devices.phone.faults import Faults
from tests.devices.phone.phone import LoopbackPhone

SHORT: dict[str, Any] = {"prompt_tokens": 20, "new_tokens": 4, "warmups": 0}
GENERATED = b'"event":"generated"'
FULL = "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/x 100 99 1 99% /data\n"


@dataclass(frozen=True)
class Case:
    """A fault and its expected outcome: an error code, or None where the run succeeds nevertheless."""

    faults: Callable[[], Faults]
    code: str | None
    prepare: Callable[[LoopbackPhone], None] = lambda phone: None
    environment: tuple[tuple[str, str], ...] = ()
    conditions: Conditions | None = None


def _full(phone: LoopbackPhone) -> None:
    (phone.says / "df").write_text(FULL)


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
    "too hot forever": Case(Faults, "E550", lambda phone: phone.set_heat(48.0, 3), (), Conditions(heat_timeout_s=0.3)),
}


def be_impatient(patch: pytest.MonkeyPatch) -> None:
    """Wait seconds, not minutes; push in small chunks; load twice only."""
    patch.setattr(link, "BACK_S", 8.0)
    patch.setattr(link, "_POLL_S", 0.1)
    patch.setattr(heat, "POLL_S", 0.1)
    patch.setattr(workspace, "CHUNK", 200_000)
    patch.setattr(bench_run, "LOADS", 1)
