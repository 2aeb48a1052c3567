"""Odd and hostile phones beside a good one: each gets a typed error, while the good one is listed and measured."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgec.devices.adb import link as adb_link
from edgec.devices.adb.link import AdbLink
from edgec.devices.answers import printable
from edgec.devices.connected_console import show_devices
from edgec.devices.transport import Conditions
from edgec.errors import EdgecError
from edgec.runtime_py.bench.console import report
from edgec.runtime_py.bench.devices import Outcome, bench_devices
from tests.devices.adb.conftest import Plug
from tests.devices.adb.fault_cases import SHORT, be_impatient
from tests.devices.mutations import NUMBERS, mutated_json, mutated_text
from tests.devices.phone.faults import Faults
from tests.devices.phone.phone import LoopbackPhone

MODEL = "[/nope]\x1b[2J\x1b]0;owned\x07\u202e"
LOADED: dict[str, Any] = {
    "event": "loaded",
    "load_ms": 5.0,
    "threads": 2,
    "resident_share": 0.5,
    "baseline_rss_bytes": 10,
}
GENERATED: dict[str, Any] = {
    "event": "generated",
    "tokens": [1, 2, 3, 4],
    "ttft_ms": 10.0,
    "token_ms": [2.0, 2.0, 2.0],
    "peak_rss_bytes": 30,
}
# The first job is the one for speed: the model and five generations.
SAID: dict[str, dict[str, Any]] = {
    "negative times": {"ttft_ms": -10.0},
    "no time at all": {"token_ms": [0.0, 0.0, 0.0]},
    "a time beyond all numbers": {"ttft_ms": 10**400},
    "a time longer than the job": {"token_ms": [2.0, 2.0, 5e7]},
    "texts for times": {"token_ms": ["2", "2", "2"]},
    "more tokens than times": {"token_ms": []},
    "no list of tokens": {"tokens": {"a": 1}},
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_impatient(monkeypatch)


def runner_says(phone: LoopbackPhone, **changes: Any) -> None:
    """The runner's output for the first job, with another last generation."""
    events = [LOADED, *[GENERATED] * 4, GENERATED | changes]
    (phone.says / "runner").write_text("".join(json.dumps(event) + "\n" for event in events))


def benched(bundle: Path, phones: list[LoopbackPhone], out: Path, **conditions: Any) -> list[Outcome]:
    """Bench all phones at once; the last one must be measured, and nothing may stay on any of them."""
    devices = [f"adb:{phone.serial}" for phone in phones]
    outcomes = bench_devices(bundle, devices, conditions=Conditions(**conditions), out=out / "run.jsonl", **SHORT)
    assert outcomes[-1].error is None and outcomes[-1].result is not None and len(outcomes[-1].result.records) == 9
    assert [phone.left_behind() for phone in phones] == [[] for _ in phones]
    return list(outcomes[:-1])


@pytest.mark.long
def test_odd_phones_are_listed_by_their_faults_and_the_others_are_listed(
    plug: Plug, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    odd, flooding, dripping, good = plug(), plug(), plug(Faults(drip="dumpsys")), plug()
    odd.set_properties(ro_product_model=MODEL)
    odd.set_heat("1.2.3", 9)  # type: ignore[arg-type]
    (flooding.says / "dumpsys-battery").write_text("x" * 2_000_000)
    for phone in (odd, flooding, dripping, good):
        AdbLink(phone.serial).ready()
    monkeypatch.setattr(adb_link, "ANSWER_S", 4.0)
    show_devices(as_json=True)
    listed = {device["address"]: device for device in json.loads(capsys.readouterr().out)["devices"]}
    states = [listed[f"adb:{phone.serial}"]["state"] for phone in (odd, flooding, dripping, good)]
    assert states == ["ready", "not understood", "silent", "ready"]
    told = listed[f"adb:{odd.serial}"]
    assert told["product"] == "edgec [/nope][2J]0;owned" and told["temperature_c"] == 30.1
    assert "'1.2.3'" in told["problem"] and "'9'" in told["problem"]
    assert listed[f"adb:{good.serial}"]["problem"] == "" and listed[f"adb:{good.serial}"]["temperature_c"] == 31.2
    dripping.faults.drip = None
    show_devices(as_json=False)
    said = capsys.readouterr().out
    assert "[/nope]" in said and printable(said) == said and all(f"adb:{p.serial}" in said for p in (odd, good))


@pytest.mark.long
def test_impossible_figures_give_no_record_and_the_others_are_measured(
    plug: Plug, phone_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    phones = [plug() for _ in range(len(SAID) + 1)]
    for phone, changes in zip(phones, SAID.values(), strict=False):
        phone.set_properties(ro_product_model=MODEL)
        runner_says(phone, **changes)
    outcomes = benched(phone_bundle, phones, tmp_path)
    assert {
        name: outcome.error and outcome.error.code for name, outcome in zip(SAID, outcomes, strict=True)
    } == dict.fromkeys(SAID, "E548")
    assert len(list(tmp_path.glob("run*.jsonl"))) == 1
    with pytest.raises(EdgecError, match="E548"):
        report(outcomes, as_json=False)
    assert printable(said := capsys.readouterr().out) == said


@pytest.mark.long
def test_a_job_that_drips_or_floods_ends(plug: Plug, phone_bundle: Path, tmp_path: Path) -> None:
    dripping, endless, deep, good = plug(Faults(drip="sh -c")), plug(), plug(), plug()
    (endless.says / "runner").write_bytes(b'{"event":"generated"}\n' * 200_000)
    (deep.says / "runner").write_bytes(b'{"event":' * 50_000 + b"\n" + b'{"event":"ended"}\n{"event":["ended"]}\n')
    outcomes = benched(phone_bundle, [dripping, endless, deep, good], tmp_path, silence_s=5.0)
    assert [outcome.error and outcome.error.code for outcome in outcomes] == ["E544", "E575", "E548"]


@pytest.mark.long
def test_a_measured_phone_with_brackets_in_its_name_is_printed(
    plug: Plug, phone_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    phone = plug()
    phone.set_properties(ro_product_model=MODEL, ro_soc_model=MODEL, ro_boot_qemu="0")
    report(bench_devices(phone_bundle, [f"adb:{phone.serial}"], **SHORT), as_json=False)
    said = capsys.readouterr().out
    assert "[/nope]" in said and printable(said) == said


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("batch", range(12))
def test_fuzzed_phones_beside_a_good_one(batch: int, plug: Plug, phone_bundle: Path, tmp_path: Path) -> None:
    """Four phones at a time, 48 in total, with mutated answers and files."""
    phones, random = [plug() for _ in range(5)], Random(batch)
    for phone in phones[:-1]:
        make_odd(phone, random)
    outcomes = benched_leniently(phone_bundle, phones, tmp_path)
    print(f"batch {batch}: {dict(outcomes)}")
    assert sum(outcomes.values()) == 4


def make_odd(phone: LoopbackPhone, random: Random) -> None:
    for name in ("properties", "dumpsys-thermalservice", "dumpsys-battery", "dumpsys-power"):
        if random.random() < 0.5:
            text = mutated_text((phone.says / name).read_text(), random)
            (phone.says / name).write_text(text, errors="surrogateescape" if "\ud800" not in text else "replace")
    if random.random() < 0.3:
        (phone.says / "df").write_text(
            f"Filesystem\n/dev/x 100 {random.choice(NUMBERS)} {random.choice(NUMBERS)} 1% /\n"
        )
    if random.random() < 0.3:
        (phone.storage / f"edgec-kept-{random.randrange(16**8):08x}").mkdir()
        (phone.storage / f"edgec-0123abcd-{'9' * 40}-{'1' * 40}-0123abcd").mkdir()
    if random.random() < 0.7:
        lines = [json.dumps(LOADED), *[json.dumps(GENERATED)] * 5]
        index = random.randrange(len(lines))
        lines[index] = mutated_json(json.loads(lines[index]), random)
        (phone.says / "runner").write_text("\n".join([*lines, ""]), errors="replace")


def benched_leniently(bundle: Path, phones: list[LoopbackPhone], out: Path) -> Counter[str]:
    devices = [f"adb:{phone.serial}" for phone in phones]
    conditions = Conditions(silence_s=60.0, heat_timeout_s=1.0)
    outcomes = bench_devices(bundle, devices, conditions=conditions, out=out / "run.jsonl", **SHORT)
    assert outcomes[-1].error is None and outcomes[-1].result is not None
    for outcome in outcomes:
        text = str(outcome.error or "")
        assert printable(text) == text
    return Counter(outcome.error.code if outcome.error else "measured" for outcome in outcomes[:-1])
