"""A job as the runner's requests, and its events as the job's result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgec.devices.job import Job
from edgec.devices.runner.job import arguments, exit_status, job_result, read_events, requests
from edgec.errors import EdgecError

LOADED = {"event": "loaded", "load_ms": 5.0, "threads": 2, "resident_share": 0.5, "baseline_rss_bytes": 10}


def job(kind: str, **fields: Any) -> dict[str, Any]:
    return Job(kind, "b.edgec", 3, 2, **fields).to_json()


def output(*events: dict[str, Any]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def generated(ttft: float, **fields: Any) -> dict[str, Any]:
    return {"event": "generated", "tokens": [1, 2], "ttft_ms": ttft, "token_ms": [4.0], "peak_rss_bytes": 30, **fields}


def test_options_and_requests() -> None:
    words = arguments(job("load", state="cold", threads=4, cores="4-5"), ".")
    assert words[-4:] == ["--cpus", "4,5", "--page-cache", "drop"] and words[4:6] == ["--threads", "4"]
    assert requests(job("load"), 10) == ""
    added = job("speed", adapter="/here/pirate.adapter")
    assert arguments(added, ".")[-2:] == ["--adapter", "lora.adapter"]
    assert arguments(added, "b", "/here/pirate.adapter")[-2:] == ["--adapter", "/here/pirate.adapter"]
    assert all("--adapter" not in arguments(each, ".") for each in (job("speed"), added | {"kind": "load"}))
    lines = requests(job("speed", warmups=1, repetitions=2, cool_down_s=0.5), 10).splitlines()
    assert [line.split()[:2] for line in lines] == [["pause", "500"], ["generate", "2"]] * 3
    assert all(0 <= int(token) < 10 for token in lines[1].split()[2:]) and len(lines[1].split()) == 5
    assert requests(job("sustained", seconds=1.5), 10).startswith("sustain 1500 2 ")


def test_warm_ups_do_not_count_and_foreign_lines_are_nobody_s() -> None:
    said = "WARNING: linker\n" + output(LOADED, generated(99.0), generated(10.0), generated(20.0)) + '{"event": "gen'
    result = job_result(job("speed", warmups=1, repetitions=2), said, "adb:A")
    assert result["laps"] == [{"ttft_s": 0.01, "gaps_s": [0.004]}, {"ttft_s": 0.02, "gaps_s": [0.004]}]
    assert (result["threads"], result["engine"]) == (2, "edgec")


def test_loads_memory_and_windows() -> None:
    assert job_result(job("load", state="cold"), output(LOADED), "x")["load_ms"] == 5.0
    unknown = LOADED | {"baseline_rss_bytes": -1}
    assert job_result(job("load", state="cold"), output(unknown), "x")["load_ms"] == 5.0
    peak = job_result(job("memory"), output(LOADED, generated(1.0)), "x")
    assert (peak["peak_rss_bytes"], peak["baseline_rss_bytes"]) == (30, 10)
    laps = [generated(1.0, elapsed_ms=elapsed) for elapsed in (600.0, 1200.0, 1800.0, 2500.0)]
    windows = job_result(job("sustained", seconds=2.5), output(LOADED, *laps), "x")["windows"]
    assert [(window["elapsed_s"], window["decode_tokens_per_s"]) for window in windows] == [
        (0.0, pytest.approx(250)),
        (1.2, pytest.approx(250)),
    ]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("speed", ""),
        ("speed", output(generated(1.0))),
        ("speed", output(LOADED)),
        ("speed", output(LOADED, generated(1.0), generated(1.0))),
        ("memory", output(LOADED, {"event": "generated", "tokens": [1]})),
        ("load", output({"event": "loaded"})),
        ("sustained", output(LOADED)),
        ("sustained", output(LOADED, generated(1.0, elapsed_ms=2000.0), generated(1.0, elapsed_ms=1000.0))),
        ("sustained", output(LOADED, generated(1.0))),
        ("load", output(LOADED | {"load_ms": -5.0})),
        ("load", output(LOADED | {"resident_share": 1.5})),
        ("load", output(LOADED | {"threads": True})),
        ("load", output(LOADED, LOADED)),
        ("load", output(LOADED).replace("5.0", "1e400")),
        ("load", output(LOADED).replace("5.0", "NaN")),
        ("load", '{"event":' * 100_000),
        ("memory", output(LOADED | {"baseline_rss_bytes": 31}, generated(1.0))),
        ("memory", output(LOADED | {"baseline_rss_bytes": -1}, generated(1.0))),
        ("speed", output(LOADED, generated(-10.0))),
        ("speed", output(LOADED, generated(5e-324))),
        ("speed", output(LOADED, generated(1e9))),
        ("speed", output(LOADED, generated(10**400))),
        ("speed", output(LOADED, generated(1.0, token_ms=[-4.0]))),
        ("speed", output(LOADED, generated(1.0, token_ms=[0.0]))),
        ("speed", output(LOADED, generated(1.0, token_ms=[4.0, 4.0]))),
        ("speed", output(LOADED, generated(1.0, tokens=list(range(9)), token_ms=[4.0] * 8))),
    ],
)
def test_output_that_does_not_hold_the_answer(kind: str, said: str) -> None:
    with pytest.raises(EdgecError, match="E548"):
        job_result(job(kind), said, "adb:A")


def test_times_that_exceed_the_job_s_own_were_not_measured_in_it() -> None:
    said = output(LOADED, generated(9000.0))
    assert job_result(job("speed"), said, "adb:A", wall_s=9.1)["laps"]
    with pytest.raises(EdgecError, match="whole job took 3 s"):
        job_result(job("speed"), said, "adb:A", wall_s=3.0)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ('{"event":"ended","status":0}', 0),
        ('{"event":"ended"}\n{"event":"ended","status":137}', 137),
        ('{"event":"ended","status":[]}', 255),
        ('{"event":"ended","status":false}', 255),
        ('{"event":["ended"]}', 255),
        ("", 255),
    ],
)
def test_the_exit_status_is_the_last_one_told(said: str, status: int) -> None:
    assert exit_status(said, 255) == status


def test_no_token_and_no_profile() -> None:
    with pytest.raises(EdgecError, match="E162"):
        job_result(job("speed"), output(LOADED, generated(1.0, tokens=[])), "x")
    with pytest.raises(EdgecError, match="E350"):
        requests(job("profile"), 10)


def test_only_objects_with_an_event_are_events() -> None:
    assert read_events('1\n[]\n{}\n{"event":"x"}\nnull\n') == [{"event": "x"}]
