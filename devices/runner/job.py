"""Jobs of ``edgec.runtime_py.bench.job`` as requests to ``edgec-runner``, and the runner's events as their results.

The runner is started once per job with ``arguments``, reads ``requests`` on stdin and writes one JSON object per line
(docs/runner.md). Lines that are not JSON come from elsewhere (a linker's warnings) and are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from edgec.devices.answers import MOST_PROMPT_TOKENS_PER_S, MOST_TOKENS_PER_S, first_fault, plain
from edgec.devices.job import core_numbers
from edgec.devices.runner.events import Ended, Generated, Loaded, RunnerEvent
from edgec.errors import EdgecError, InputError, ToolError

PACKED, ADAPTER = "packed", "lora.adapter"
_CACHE = {"cold": "drop", "warm": "fill"}
Events = Sequence[Mapping[str, Any]]
E = TypeVar("E", bound=RunnerEvent)
_TOKEN_BYTES, _EVENT_BYTES = 64, 4096
_FOREIGN_BYTES, _MOST_BYTES = 1 << 20, 256 << 20
# A phone's clock and this computer's differ by far less.
_CLOCK_SLACK, _CLOCK_SLACK_S = 1.01, 0.5
_LEAST_GAP_MS = 1e3 / MOST_TOKENS_PER_S


def arguments(job: Mapping[str, Any], bundle: str, adapter: str = ADAPTER) -> list[str]:
    """The runner's command line options for a job.

    Args:
        job: the fields of the job.
        bundle: the bundle's folder, as the runner sees it; packed weights go next to it.
        adapter: the file of the job's adapter, as the runner sees it; a load is the bundle's alone.
    """
    words = ["--bundle", bundle, "--packed", PACKED]
    if job["threads"] is not None:
        words += ["--threads", str(job["threads"])]
    if job["cores"]:
        words += ["--cpus", ",".join(map(str, core_numbers(job["cores"])))]
    if job["kind"] == "load":
        return [*words, "--page-cache", _CACHE[job["state"]]]
    return [*words, "--adapter", adapter] if job.get("adapter") else words


def requests(job: Mapping[str, Any], vocab_size: int) -> str:
    """The requests that the runner reads on stdin: nothing for a load, else generations with their pauses.

    Raises:
        ToolError: E350, the runner cannot do such a job.
    """
    from edgec.devices.job import bench_prompt

    if job["kind"] == "load":
        return ""
    prompt = " ".join(map(str, bench_prompt(job["prompt_tokens"], vocab_size)))
    generate = f"generate {job['new_tokens']} {prompt}\n"
    pause = f"pause {round(1e3 * job['cool_down_s'])}\n" if job["cool_down_s"] else ""
    counts = {"memory": 1, "speed": job["warmups"] + job["repetitions"]}
    if job["kind"] in counts:
        result: str = (pause + generate) * counts[job["kind"]]
        return result
    if job["kind"] == "sustained":
        return f"sustain {round(1e3 * job['seconds'])} {job['new_tokens']} {prompt}\n"
    raise ToolError(
        "The profile of a device is unavailable.",
        where="--profile",
        why="instructions are named and timed only on this machine",
        fix="profile with --device host; leave --profile out here",
        code="E350",
    )


def expected_events(job: Mapping[str, Any]) -> int | None:
    """How many events a job's output holds before the last; None: as many as its seconds allow."""
    counts = {"load": 1, "memory": 2, "speed": 1 + job["warmups"] + job["repetitions"]}
    return counts.get(job["kind"])


def most_output_bytes(job: Mapping[str, Any]) -> int:
    """An upper bound on the runner's output for a job, with room for a linker's warnings."""
    count = expected_events(job)
    if count is None:
        return min(_MOST_BYTES, _FOREIGN_BYTES * (16 + int(job["seconds"]) // 8))
    return min(_MOST_BYTES, _FOREIGN_BYTES + count * (_EVENT_BYTES + _TOKEN_BYTES * int(job["new_tokens"])))


def read_events(text: str) -> list[dict[str, Any]]:
    """The JSON objects with the key ``event`` among the lines of the runner's output."""
    return [event for line in text.split("\n") if (event := _event(line)) is not None]


def _event(line: str) -> dict[str, Any] | None:
    try:
        value = from_json(line.encode(errors="replace"), allow_inf_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "event" in value else None


def exit_status(output: str, otherwise: int) -> int:
    """The runner's exit status from the last event of its output; ``otherwise`` where there is none."""
    ended = next((event for event in reversed(read_events(output)) if event["event"] == "ended"), None)
    try:
        return otherwise if ended is None else Ended.model_validate(ended).status
    except ValidationError:
        return otherwise


def job_result(job: Mapping[str, Any], output: str, where: str, wall_s: float | None = None) -> dict[str, Any]:
    """Compute the result of a finished job.

    Args:
        job: the fields of the job.
        output: everything the runner wrote to stdout.
        where: the device, for the error.
        wall_s: how long the job took by this computer's clock; None: unknown.

    Raises:
        InputError: E548, the output lacks what the job asked for, or holds impossible figures; E162, no token came.
    """
    events = read_events(output)
    try:
        _check_times(events, wall_s)
        return _RESULTS[job["kind"]](job, events)
    except ValidationError as cause:
        raise _unreadable(job, output, where, first_fault(cause)) from cause
    except (ValueError, ZeroDivisionError) as cause:
        raise _unreadable(job, output, where, plain(str(cause))) from cause


def _check_times(events: Events, wall_s: float | None) -> None:
    """Refuse times that are impossible: a job's parts cannot take longer than the job, nor end after it."""
    generated = list(_all(events, Generated))
    told_ms = sum(event.told_ms() for event in [*_all(events, Loaded), *generated])
    last_s = 1e-3 * max(told_ms, *(event.elapsed_ms or 0 for event in generated), 0)
    if wall_s is not None and last_s > wall_s * _CLOCK_SLACK + _CLOCK_SLACK_S:
        raise ValueError(f"its times add up to {last_s:.3g} s, but the whole job took {wall_s:.3g} s")


def _load(job: Mapping[str, Any], events: Events) -> dict[str, Any]:
    loaded = _one(events, Loaded)
    return {"state": job["state"], "load_ms": loaded.load_ms, "resident_share": loaded.resident_share}


def _memory(job: Mapping[str, Any], events: Events) -> dict[str, Any]:
    baseline, peak = _one(events, Loaded).baseline_rss_bytes, _generations(job, events, 1)[0].peak_rss_bytes
    if peak is None or not 0 < baseline <= peak:
        raise ValueError(f"a peak of {peak} bytes over {baseline} before the load")
    return {
        "peak_rss_bytes": peak,
        "baseline_rss_bytes": baseline,
        "obtained": "VmHWM of the runner's process; baseline: VmRSS before the load",
    }


def _speed(job: Mapping[str, Any], events: Events) -> dict[str, Any]:
    loaded = _one(events, Loaded)
    generated = _generations(job, events, job["warmups"] + job["repetitions"])
    for event in generated:
        if not len(event.token_ms) + 1 == len(event.tokens) <= job["new_tokens"]:
            raise ValueError(f"{len(event.tokens)} tokens with {len(event.token_ms)} times between them")
    laps = [_lap(event) for event in generated]
    if any(job["prompt_tokens"] > MOST_PROMPT_TOKENS_PER_S * lap["ttft_s"] for lap in laps):
        raise ValueError(f"a prompt of {job['prompt_tokens']} tokens in {min(lap['ttft_s'] for lap in laps):g} s")
    kept = laps[job["warmups"] :]
    kernels = {"linear_kernel": loaded.linear_kernel, "linear_kernels": (loaded.linear_kernels or "").split()}
    return {"threads": loaded.threads, "engine": "edgec", **kernels, "laps": kept}


def _sustained(job: Mapping[str, Any], events: Events) -> dict[str, Any]:
    """Speeds in windows of at least a second; clock and temperature are not read, since that costs the device time."""
    generated = list(_all(events, Generated))
    ends_s = [1e-3 * event.elapsed_ms for event in generated if event.elapsed_ms is not None]
    if len(ends_s) < len(generated) or any(after < before for before, after in pairwise(ends_s)):
        raise ValueError("generations that do not say when they ended, or end before the previous one")
    windows, gaps = list[dict[str, Any]](), list[float]()
    start_s = 0.0
    for event, end_s in zip(generated, ends_s, strict=True):
        gaps += _lap(event)["gaps_s"]
        if end_s - start_s >= 1.0:
            speed = {"elapsed_s": start_s, "decode_tokens_per_s": len(gaps) / sum(gaps)}
            windows.append(speed | {"clock_mhz": None, "temperature_c": None})
            start_s, gaps = end_s, []
    if not windows:
        raise ValueError("no window of a second")
    return {"threads": _one(events, Loaded).threads, "windows": windows}


_RESULTS: Mapping[str, Callable[[Mapping[str, Any], Events], dict[str, Any]]] = {
    "load": _load,
    "memory": _memory,
    "speed": _speed,
    "sustained": _sustained,
}


def _all(events: Events, kind: type[E]) -> Iterator[E]:
    return (kind.model_validate(event) for event in events if event["event"] == kind.name)


def _one(events: Events, kind: type[E]) -> E:
    matches = list(_all(events, kind))
    if len(matches) != 1:
        raise ValueError(f"{len(matches)} events {kind.name!r} instead of one")
    return matches[0]


def _generations(job: Mapping[str, Any], events: Events, count: int) -> list[Generated]:
    generated = list(_all(events, Generated))
    if len(generated) != count:
        raise ValueError(f"{len(generated)} generations instead of {count}")
    if any(not event.tokens for event in generated):
        raise InputError("No token was generated.", where="bench", fix="ask for at least one", code="E162")
    return generated


def _lap(event: Generated) -> dict[str, Any]:
    if event.token_ms and sum(event.token_ms) < _LEAST_GAP_MS * len(event.token_ms):
        raise ValueError(f"{len(event.token_ms)} tokens in {sum(event.token_ms):g} ms")
    return {"ttft_s": event.ttft_ms / 1e3, "gaps_s": [ms / 1e3 for ms in event.token_ms]}


def _unreadable(job: Mapping[str, Any], output: str, where: str, fault: str) -> EdgecError:
    foreign = next((line for line in output.split("\n") if line.strip() and _event(line) is None), None)
    said = f"; among others it printed {plain(foreign, 120)!r}" if foreign else ""
    return InputError(
        f"The runner's output for the job {job['kind']!r} cannot be read.",
        where=where,
        why=f"{len(read_events(output))} events do not hold what was asked for: {fault}{said}",
        fix="measure again; if it happens again, something on the device writes into the runner's output",
        code="E548",
    )
