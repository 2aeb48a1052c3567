"""The records that a bench app wrote on a device, checked against each other and against what was asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgec.devices.answers import AnswerFault, plain
from edgec.errors import InputError
from edgec.runtime_py.bench.record import AnyRecord, RepetitionRecord, RunRecord, read_record

MOST_RECORDS = 20_000
KINDS = ("run", "load", "memory", "repetition", "sustained")
# Speeds are printed with fewer digits than the times they follow from.
ROUNDING = 0.01


def app_records(lines: Sequence[str], job: Mapping[str, Any], device: str, simulated: bool) -> list[AnyRecord]:
    """Read the records of one run.

    Args:
        lines: one JSON object each.
        job: the job that the app was given.
        device: its address.
        simulated: the device is an emulator, whatever the app says.

    Raises:
        InputError: E558, they are not the records of the requested run.
    """
    try:
        if len(lines) > MOST_RECORDS:
            raise AnswerFault(f"it has {len(lines):,} lines")
        records = [read_record(line) for line in lines]
        fault = next(_faults(records, job, device), None)
    except AnswerFault as cause:
        fault = str(cause)
    if fault is None:
        return [_simulated(record) for record in records] if simulated else records
    fix = "run again; if it happens again, rebuild the app from this bundle"
    raise InputError("The app's result cannot be used.", device, plain(fault), fix, "E558")


def _simulated(record: AnyRecord) -> AnyRecord:
    obtained = record.obtained.replace("measured", "simulated", 1)
    return record.model_copy(update={"simulated": True, "obtained": obtained})


def _faults(records: Sequence[AnyRecord], job: Mapping[str, Any], device: str) -> Iterator[str]:
    if sum(isinstance(record, RunRecord) for record in records) != 1 or not isinstance(records[0], RunRecord):
        yield "it does not begin with the single record of the run's conditions"
        return
    head = records[0]
    key = head.comparability
    if any((record.run, record.comparability) != (head.run, key) for record in records):
        yield "its records are of several runs"
    yield from (f"it holds a {record.kind!r}" for record in records if record.kind not in KINDS)
    asked = {"device": device, **{name: job[name] for name in ("prompt_tokens", "new_tokens")}}
    for name, value in asked.items():
        if getattr(key, name) != value:
            yield f"its {name} is {getattr(key, name)}, not {value}"
    laps = [record for record in records if isinstance(record, RepetitionRecord)]
    if len(laps) != job["repetitions"]:
        yield f"it holds {len(laps)} repetitions instead of {job['repetitions']}"
    yield from (fault for lap in laps for fault in _unlike_its_times(lap))


def _unlike_its_times(lap: RepetitionRecord) -> Iterator[str]:
    gaps, told = len(lap.token_ms), f"repetition {lap.index}"
    if lap.tokens != gaps + 1 or lap.tokens > lap.comparability.new_tokens:
        yield f"{told} has {lap.tokens} tokens and {gaps} times between them"
    if not _near(lap.prefill_tokens_per_s * lap.ttft_ms, 1e3 * lap.comparability.prompt_tokens):
        yield f"{told} has a prefill speed that does not follow from its time to the first token"
    if gaps and not _near((lap.decode_tokens_per_s or 0.0) * sum(lap.token_ms), 1e3 * gaps):
        yield f"{told} has a decode speed that does not follow from its times between tokens"


def _near(value: float, expected: float) -> bool:
    return math.isclose(value, expected, rel_tol=ROUNDING)
