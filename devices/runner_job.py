"""A job of ``edgec.runtime_py.bench_job`` as requests to ``edgec-runner``, and the runner's events as its result.

The runner is started once per job with ``arguments``, reads ``requests`` on stdin and writes one JSON object per line
(docs/runner.md). Lines that are no JSON are someone else's (a linker's warnings) and do not count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from edgec.devices.cores import core_numbers
from edgec.errors import EdgecError, InputError, ToolError

PACKED = "packed"
_CACHE = {"cold": "drop", "warm": "fill"}
Events = Sequence[Mapping[str, Any]]


def arguments(job: Mapping[str, Any], bundle: str) -> list[str]:
    """The runner's options.

    Args:
        job: its fields.
        bundle: the bundle's folder, as the runner sees it; packed weights go beside it.
    """
    words = ["--bundle", bundle, "--packed", PACKED]
    if job["threads"] is not None:
        words += ["--threads", str(job["threads"])]
    if job["cores"]:
        words += ["--cpus", ",".join(map(str, core_numbers(job["cores"])))]
    if job["kind"] == "load":
        words += ["--page-cache", _CACHE[job["state"]]]
    return words


def requests(job: Mapping[str, Any], vocab_size: int) -> str:
    """What the runner reads on stdin: nothing for a load, else generations with their pauses.

    Raises:
        ToolError: E350, the runner does not do such a job.
    """
    from edgec.runtime_py.bench_job import bench_prompt

    if job["kind"] == "load":
        return ""
    prompt = " ".join(map(str, bench_prompt(job["prompt_tokens"], vocab_size)))
    generate = f"generate {job['new_tokens']} {prompt}\n"
    pause = f"pause {round(1e3 * job['cool_down_s'])}\n" if job["cool_down_s"] else ""
    counts = {"memory": 1, "speed": job["warmups"] + job["repetitions"]}
    if job["kind"] in counts:
        return (pause + generate) * counts[job["kind"]]
    if job["kind"] == "sustained":
        return f"sustain {round(1e3 * job['seconds'])} {job['new_tokens']} {prompt}\n"
    raise ToolError(
        "The profile of a device is unavailable.",
        where="--profile",
        why="instructions are named and timed on this machine only",
        fix="profile with --device host; leave --profile out here",
        code="E350",
    )


def read_events(text: str) -> list[dict[str, Any]]:
    """The JSON objects with an ``event`` among the lines of the runner's output."""
    found = []
    for line in text.splitlines():
        with suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict) and "event" in value:
                found.append(value)
    return found


def job_result(job: Mapping[str, Any], output: str, where: str) -> dict[str, Any]:
    """The result of a finished job.

    Args:
        job: its fields.
        output: everything the runner wrote to stdout.
        where: the device, for the error.

    Raises:
        InputError: E548, the output does not hold what the job asked for; E162, no token came.
    """
    events = read_events(output)
    try:
        return _RESULTS[job["kind"]](job, events)
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as cause:
        raise _unreadable(job, output, where) from cause


def _load(job: Mapping[str, Any], events: Events) -> dict[str, Any]:
    loaded = _one(events, "loaded")
    return {"state": job["state"], "load_ms": float(loaded["load_ms"]), "resident_share": loaded["resident_share"]}


def _memory(job: Mapping[str, Any], events: Events) -> dict[str, Any]:
    loaded, generated = _one(events, "loaded"), _generations(job, events, 1)[0]
    return {
        "peak_rss_bytes": int(generated["peak_rss_bytes"]),
        "baseline_rss_bytes": int(loaded["baseline_rss_bytes"]),
        "obtained": "VmHWM of the runner's process; baseline: VmRSS before the load",
    }


def _speed(job: Mapping[str, Any], events: Events) -> dict[str, Any]:
    loaded = _one(events, "loaded")
    laps = [_lap(event) for event in _generations(job, events, job["warmups"] + job["repetitions"])]
    return {"threads": int(loaded["threads"]), "engine": "edgec", "laps": laps[job["warmups"] :]}


def _sustained(job: Mapping[str, Any], events: Events) -> dict[str, Any]:
    """Windows of at least a second; clock and temperature are not read meanwhile, since that costs the device time."""
    windows, gaps = list[dict[str, Any]](), list[float]()
    start_s = 0.0
    for event in (event for event in events if event["event"] == "generated"):
        gaps += [float(ms) / 1e3 for ms in event["token_ms"]]
        end_s = float(event["elapsed_ms"]) / 1e3
        if end_s - start_s >= 1.0:
            speed = {"elapsed_s": start_s, "decode_tokens_per_s": len(gaps) / sum(gaps)}
            windows.append(speed | {"clock_mhz": None, "temperature_c": None})
            start_s, gaps = end_s, []
    if not windows:
        raise ValueError("no window of a second")
    return {"threads": int(_one(events, "loaded")["threads"]), "windows": windows}


_RESULTS: Mapping[str, Callable[[Mapping[str, Any], Events], dict[str, Any]]] = {
    "load": _load,
    "memory": _memory,
    "speed": _speed,
    "sustained": _sustained,
}


def _one(events: Events, name: str) -> Mapping[str, Any]:
    (found,) = (event for event in events if event["event"] == name)
    return found


def _generations(job: Mapping[str, Any], events: Events, count: int) -> list[Mapping[str, Any]]:
    found = [event for event in events if event["event"] == "generated"]
    if len(found) != count:
        raise ValueError(f"{len(found)} generations instead of {count}")
    if any(not event["tokens"] for event in found):
        raise InputError("No token was generated.", where="bench", fix="ask for at least one", code="E162")
    return found


def _lap(event: Mapping[str, Any]) -> dict[str, Any]:
    return {"ttft_s": float(event["ttft_ms"]) / 1e3, "gaps_s": [float(ms) / 1e3 for ms in event["token_ms"]]}


def _unreadable(job: Mapping[str, Any], output: str, where: str) -> EdgecError:
    foreign = [line for line in output.splitlines() if not read_events(line)]
    said = f"; among others it printed {foreign[0][:120]!r}" if foreign else ""
    return InputError(
        f"The runner's output for the job {job['kind']!r} cannot be read.",
        where=where,
        why=f"{len(read_events(output))} events do not hold what was asked for{said}",
        fix="measure again; if it happens again, something on the device writes into the runner's output",
        code="E548",
    )
