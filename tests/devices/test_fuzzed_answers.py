"""Thousands of odd and hostile answers of phones and services: a typed error or a believable result, nothing else."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel
from rich.console import Console

from edgec.devices.adb.facts import read_state
from edgec.devices.adb.heat import cool
from edgec.devices.adb.link import ShellOutput
from edgec.devices.answers import MOST_TEXT, printable
from edgec.devices.apple import pymobiledevice, simulator, xcrun
from edgec.devices.apple.connected import apple_device, check_ready, fault
from edgec.devices.apple.refusals import chain, refusal
from edgec.devices.cloud import device_farm
from edgec.devices.cloud.ai_hub import profile_figures
from edgec.devices.connected import _doubted, _ready
from edgec.devices.connected_console import device_table
from edgec.devices.job import Job
from edgec.devices.runner.job import exit_status, job_result
from edgec.errors import EdgecError
from edgec.runtime_py.bench import run as bench_run
from edgec.runtime_py.bench.app_result import app_records
from edgec.runtime_py.bench.record import LoadRecord, MemoryRecord, SustainedRecord
from tests.devices.adb.test_phone_state import PIXEL, hal
from tests.devices.apple import apple_answers
from tests.devices.apple.app_result import app_result
from tests.devices.cloud.test_ai_hub import PROFILE
from tests.devices.mutations import mutated_json, mutated_text, mutated_value
from tests.devices.phone.phone import BATTERY

TOLD = PIXEL | {"battery": BATTERY, "thermal": hal((38.5, 3)), "ro.boot.qemu": "", "ro.kernel.qemu": ""}
TOLD |= {"ro.board.platform": "zuma"}
FACTS = "".join(f"=edgec={name}\n{text}\n" for name, text in TOLD.items())
APP_JOB = {"prompt_tokens": 20, "new_tokens": 4, "repetitions": 5}
LOADED = {"event": "loaded", "load_ms": 5.0, "threads": 2, "resident_share": 0.5, "baseline_rss_bytes": 10}
HEAD = json.loads(app_result("adb:A").splitlines()[0])
COMMON = {**{name: HEAD[name] for name in ("run", "comparability", "subject")}, "simulated": False}
QUIET = Console(file=open("/dev/null", "w"), width=100)  # noqa: SIM115


def phone_facts(random: Random) -> Any:
    """Do what ``edgec devices`` does with one phone, up to the table."""
    answer = ShellOutput(0, printable(mutated_text(FACTS, random)), "")
    link: Any = SimpleNamespace(where="adb:A", shell=lambda script: answer)
    state = read_state(link)
    facts = state.facts()
    cool(state, 37.0)
    QUIET.print(device_table([_doubted(_ready("adb:[/nope]", facts), state.faults)]))
    return facts


def runner_output(random: Random) -> Any:
    """Read mutated runner output for one job of each kind."""
    kind = random.choice(("load", "memory", "speed", "sustained"))
    job = Job(kind, "b.edgec", 20, 4, state="cold", repetitions=3, seconds=3.0).to_json()
    generated = {"event": "generated", "tokens": [1, 2, 3, 4], "ttft_ms": 10.0, "token_ms": [2.0, 3.0, 2.5]}
    generated |= {"peak_rss_bytes": 50}
    count = {"load": 0, "memory": 1, "speed": 3, "sustained": 3}[kind]
    events = [LOADED, *({**generated, "elapsed_ms": 1100.0 * (i + 1)} for i in range(count))]
    chosen = random.randrange(len(events))
    lines = [mutated_json(event, random) if i == chosen else json.dumps(event) for i, event in enumerate(events)]
    output = printable("\n".join([*lines, '{"event":"ended","status":0}', ""]))
    assert 0 <= exit_status(output, 255) <= 255
    result = job_result(job, output, "adb:A", wall_s=random.choice((None, 5.0)))
    return [result, *recorded(Job(**job), result)]


def recorded(job: Job, result: dict[str, Any]) -> list[BaseModel]:
    """The records that ``edgec bench`` makes of a result."""
    if job.kind == "load":
        return [LoadRecord(**COMMON, obtained="measured", **result)]
    if job.kind == "memory":
        return [MemoryRecord(**COMMON, **result)]
    if job.kind == "sustained":
        return [SustainedRecord(**COMMON, obtained="measured", **window) for window in result["windows"]]
    return [bench_run._repetition(COMMON, job, index, lap) for index, lap in enumerate(result["laps"])]


def app_lines(random: Random) -> Any:
    """Read a mutated result file of a bench app."""
    lines = app_result("ios:U").splitlines()
    index = random.randrange(len(lines))
    lines[index] = mutated_json(json.loads(lines[index]), random)
    records = app_records(lines, APP_JOB, "ios:U", simulated=random.random() < 0.5)
    return [record.model_dump() for record in records]


def device_list(random: Random) -> Any:
    """Read a mutated device list of devicectl, or its refusal."""
    answer = mutated_json(apple_answers.devices(apple_answers.phone()), random)
    devices = xcrun.json_object(f"junk {{\n{answer}\n100%", "ios", "Listing devices").get("result")
    rows = devices.get("devices") if isinstance(devices, Mapping) else None
    listed = [apple_device(row) for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    for device in listed:
        if device is not None:
            fault(device, "ios:U")
            check_ready(device, "ios:U", "17.0")
    return [device.facts() for device in listed if device is not None]


def apple_failure(random: Random) -> Any:
    """Read a mutated refusal of devicectl."""
    answer = mutated_value(apple_answers.LOCKED_LAUNCH, random)
    error = answer.get("error") if isinstance(answer, dict) else None
    raise refusal(list(chain(error)) if isinstance(error, dict) else [], "ios:U", "Starting the bench app")


def listed_by(listed: Callable[[], Any], module: Any, name: str, answer: Any) -> Callable[[Random], Any]:
    """The devices of a tool whose output is replaced."""

    def case(random: Random) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, name, lambda *words: f"WARNING [log] {mutated_json(answer, random)}")
            return [device.facts() for device in listed()]

    return case


def hub_profile(random: Random) -> Any:
    """Read a mutated profile of AI Hub."""
    job = SimpleNamespace(device=SimpleNamespace(name="S25"), wait=lambda limit: SimpleNamespace(success=True))
    job.download_profile = lambda: mutated_value(PROFILE, random)
    return profile_figures(SimpleNamespace(get_job=lambda name: job), "j")


def farm_answers(random: Random) -> Any:
    """Collect a run of Device Farm whose every answer is mutated."""
    run = {"run": {"status": "COMPLETED", "result": "PASSED"}}
    page = {"artifacts": [{"name": "Customer Artifacts", "url": "https://x"}], "nextToken": None}
    client: Any = SimpleNamespace(
        get_run=lambda arn: mutated_value(run, random), list_artifacts=lambda **fields: mutated_value(page, random)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_farm, "POLL_S", 0.0)
        patch.setattr(device_farm, "LIMIT_S", 0.0)
        patch.setattr(device_farm, "_read", lambda archive, jobs, name: "read")
        return device_farm.collect(client, "arn", 1, Path("/nowhere"), lambda url, path: None)


SURFACES: dict[str, Callable[[Random], Any]] = {
    "facts of a phone": phone_facts,
    "the runner's output": runner_output,
    "an app's result": app_lines,
    "devicectl's list": device_list,
    "devicectl's refusal": apple_failure,
    "simctl's list": listed_by(simulator.listed, simulator, "simctl", apple_answers.SIMULATORS),
    "pymobiledevice3's list": listed_by(pymobiledevice.listed, pymobiledevice, "_called", apple_answers.USBMUX),
    "AI Hub's profile": hub_profile,
    "Device Farm's answers": farm_answers,
}
FAST, SLOW = 60, 4000


def leaves(value: Any) -> Iterator[Any]:
    """Every number and text of a result."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def is_plain(text: str) -> bool:
    return printable(text) == text and "\n" not in text and len(text) <= 3 * MOST_TEXT


def tried(surface: str, seed: int) -> str:
    """The outcome of one case: the code of the error, or ``accepted``."""
    try:
        result = SURFACES[surface](Random(f"{surface}{seed}"))
    except EdgecError as error:
        text = f"{error}\n{json.dumps(error.to_json())}"
        assert printable(text) == text and len(text) < 5000, f"{surface} {seed}"
        return error.code
    for leaf in leaves(result):
        assert not isinstance(leaf, str) or is_plain(leaf), f"{surface} {seed}: {leaf!r}"
        assert not isinstance(leaf, int | float) or math.isfinite(leaf), f"{surface} {seed}"
        if surface != "facts of a phone":
            assert not isinstance(leaf, int | float) or leaf >= 0, f"{surface} {seed}: {leaf}"
    return "accepted"


def outcomes(surface: str, count: int) -> Counter[str]:
    counts = Counter(tried(surface, seed) for seed in range(count))
    print(f"{surface}: {count} answers: {dict(counts)}")
    return counts


@pytest.mark.parametrize("surface", SURFACES)
def test_odd_answers_are_refused_or_believable(surface: str) -> None:
    assert sum(outcomes(surface, FAST).values()) == FAST


@pytest.mark.slow
@pytest.mark.parametrize("surface", SURFACES)
def test_thousands_of_odd_answers(surface: str) -> None:
    counts = outcomes(surface, SLOW)
    assert sum(counts.values()) == SLOW and len(counts) >= 2
