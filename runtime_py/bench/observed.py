"""What ``edgec bench`` measured, as the forecast of speeds learns from it: one observation for each file of records.

A file says which bundle ran where and how fast, but not the model's shape: that of the published decoder with the
nearest number of parameters stands for it, which decides only how caches and calls weigh beside the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import log
from pathlib import Path
from statistics import median

from edgec.devices.prediction.calibration import Observation, decoders
from edgec.devices.prediction.speed_forecast import machine_of, software_of
from edgec.devices.prediction.workload import Workload
from edgec.devices.targets import Target, load_target
from edgec.errors import InputError
from edgec.runtime_py.bench.record import AnyRecord, RepetitionRecord, read_records

_APART = 2.0
"""Medians of one bundle on one device that differ by more were not measured under the same conditions."""


def observations_of(files: Sequence[Path]) -> tuple[Observation, ...]:
    """Read files that ``edgec bench --out`` wrote.

    Raises:
        InputError: E161, a file is not the record of one run; E163, its target is unknown; E867, nothing can be learned
            from it; E868, two files contradict each other.
    """
    runs = [(file, read_records(file)) for file in files]
    for (a, one), (b, other) in combinations(runs, 2):
        _check_alike(a, one, b, other)
    return tuple(_observation(file, records) for file, records in runs)


def _observation(file: Path, records: Sequence[AnyRecord]) -> Observation:
    first = records[0]
    target, speeds = load_target(first.subject.target), list(_decoding(records))
    if first.simulated:
        raise _unusable(file, "an emulator made it, whose times say nothing about speed")
    if not speeds:
        raise _unusable(file, "it holds no speed of decoding")
    work = _workload(target, records)
    if work is None:
        raise _unusable(file, f"the memory bandwidth of {target.name} is unknown")
    prefill = median(each.prefill_tokens_per_s for each in records if isinstance(each, RepetitionRecord))
    where = f"{file.name}: {first.subject.recipe} on {target.name}"
    return Observation(where, work, first.comparability.prompt_tokens, prefill, median(speeds), str(file))


def _decoding(records: Sequence[AnyRecord]) -> Iterator[float]:
    for record in records:
        if isinstance(record, RepetitionRecord) and record.decode_tokens_per_s is not None:
            yield record.decode_tokens_per_s


def _workload(target: Target, records: Sequence[AnyRecord]) -> Workload | None:
    compared, subject = records[0].comparability, records[0].subject
    machine, software = machine_of(target), software_of(target)
    if machine is None or software is None:
        return None
    name, shape = _nearest(compared.model_parameters)
    context = compared.prompt_tokens + compared.new_tokens / 2
    values = 2 * int(shape["attention_layers"]) * int(shape["kv_width"])
    return Workload(
        **machine,
        **software,
        model=name,
        layers=int(shape["layers"]),
        parameters=float(compared.model_parameters),
        prompt_parameters=float(shape["prompt_parameters"]),
        weight_bytes=float(subject.artifact_bytes),
        cache_bytes=2.0 * values * context,
        attention_operations=4.0 * int(shape["attention_layers"]) * int(shape["attention_width"]) * context / 2,
        tokens_at_once=min(compared.prompt_tokens, 128),
    )


def _nearest(parameters: int) -> tuple[str, Mapping[str, str]]:
    return min(decoders().items(), key=lambda each: abs(log(int(each[1]["matrix_parameters"]) / max(parameters, 1))))


def _check_alike(a: Path, one: Sequence[AnyRecord], b: Path, other: Sequence[AnyRecord]) -> None:
    same = (one[0].comparability, one[0].subject) == (other[0].comparability, other[0].subject)
    speeds = [list(_decoding(records)) for records in (one, other)]
    if not same or not all(speeds):
        return
    slow, fast = sorted(map(median, speeds))
    if fast > _APART * slow:
        raise InputError(
            "Two measurements of one bundle contradict each other.",
            where=f"{a}, {b}",
            why=f"the same bundle decoded {slow:,.3g} and {fast:,.3g} tokens/s on the same device",
            fix="measure again on a cool, idle device, and give the file that holds",
            code="E868",
        )


def _unusable(file: Path, why: str) -> InputError:
    return InputError(
        "Nothing can be learned from this measurement.",
        where=str(file),
        why=why,
        fix="give a file of edgec bench for a phone that edgec targets lists with its memory bandwidth",
        code="E867",
    )
