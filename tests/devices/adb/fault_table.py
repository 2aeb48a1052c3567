"""``pytest -s tests/devices/adb/fault_table.py``: the faults and their outcomes as a table, each tried once."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.errors import EdgecError
from edgec.runtime_py.bench.bench import bench
from tests.devices.adb.conftest import Plug
from tests.devices.adb.fault_cases import CASES, SHORT, be_impatient


def test_print_the_table(plug: Plug, phone_bundle: Path) -> None:
    rows = ["| fault | outcome | left on the phone |", "|---|---|---|"]
    for name in CASES:
        with pytest.MonkeyPatch.context() as patch:
            outcome, left = tried(name, plug, phone_bundle, patch)
        rows.append(f"| {name} | {outcome} | {left} |")
    print("\n" + "\n".join(rows))
    assert all(row.endswith("| nothing |") for row in rows[2:])


def tried(name: str, plug: Plug, bundle: Path, patch: pytest.MonkeyPatch) -> tuple[str, str]:
    case = CASES[name]
    be_impatient(patch)
    for variable, value in case.environment:
        patch.setenv(variable, value)
    phone = plug(case.faults())
    case.prepare(phone)
    try:
        bench(bundle, f"adb:{phone.serial}", conditions=case.conditions, **SHORT)
        outcome = "survived: the run is complete"
    except EdgecError as error:
        outcome = f"{error.code}: {error.what} {error.why}".replace(phone.serial, "SERIAL")[:160]
    return outcome, ", ".join(phone.left_behind()) or "nothing"
