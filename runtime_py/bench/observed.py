"""What ``edgec bench`` measured, as the forecast of speeds learns from it: one observation for each file of records.

A file says which bundle ran on which phone and how fast, and the numbers of its decoder; the measurement becomes a
workload by the very arithmetic with which ``edgec plan`` makes one of the planned model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import median

from edgec.devices.prediction.calibration import Observation, decoders
from edgec.devices.prediction.parameters import Kind, Parameter
from edgec.devices.prediction.speed_forecast import Task
from edgec.devices.prediction.speed_forecast import planned_workload as workload_of
from edgec.devices.prediction.workload import Workload
from edgec.devices.targets import Target, known_name, load_target, phones
from edgec.errors import InputError
from edgec.ir.spec import LayerSpec, ModelSpec
from edgec.runtime_py.bench.past_runs import past_runs
from edgec.runtime_py.bench.record import AnyRecord, MeasuredModel, RepetitionRecord, RunRecord, Subject, read_records

_APART = 2.0
"""Medians of one bundle on one device that differ by more were not measured under the same conditions."""

_PHONE_FIX = "say on which phone it was measured: --measured PHONE=FILE, with a name that edgec targets lists"
_FIX = "give a file of edgec bench for a phone that edgec targets lists with its memory bandwidth"


@dataclass(frozen=True)
class _Run:
    """The records of one file, and the phone that the user says they were measured on; None: the records say it."""

    file: Path
    records: list[AnyRecord]
    phone: str | None = None

    @property
    def subject(self) -> Subject:
        return self.records[0].subject

    @property
    def repetitions(self) -> list[RepetitionRecord]:
        return [record for record in self.records if isinstance(record, RepetitionRecord)]


def observations_of(files: Sequence[str | Path]) -> tuple[Observation, ...]:
    """Read files that ``edgec bench --out`` wrote.

    Args:
        files: each a path, or ``PHONE=PATH``.

    Raises:
        InputError: E161, a file is not the record of one run; E163, its target is unknown; E867, nothing can be learned
            from it; E868, two files contradict each other.
    """
    runs = [_run(str(file)) for file in files]
    for one, other in combinations(runs, 2):
        _check_alike(one, other)
    return tuple(map(_observation, runs))


def past_observations(target: Target) -> tuple[Observation, ...]:
    """What ``edgec bench`` measured before on a target's phone, from the cache, less what teaches nothing."""
    found: list[Observation] = []
    for file in past_runs():
        try:
            known = observations_of([file])[0]
        except InputError:  # Left by another version, or of a phone that is not known any more.
            continue
        if known.workload.device == target.phone:
            found.append(replace(known, row=known.row.partition(": ")[2]))
    return tuple(found)


def _run(asked: str) -> _Run:
    """``PHONE=PATH`` where the words before the sign name a phone and no such file exists, else a path."""
    name, sign, rest = asked.partition("=")
    if sign and not Path(asked).exists():
        return _Run(Path(rest), read_records(Path(rest)), load_target(name).phone)
    return _Run(Path(asked), read_records(Path(asked)))


def _observation(run: _Run) -> Observation:
    target, compared = _measured_on(run), run.records[0].comparability
    decode = [each.decode_tokens_per_s for each in run.repetitions if each.decode_tokens_per_s is not None]
    if run.records[0].simulated:
        raise _unusable(run.file, "an emulator made it, whose times say nothing about speed")
    if not decode:
        raise _unusable(run.file, "it holds no speed of decoding")
    if run.subject.measured is None:
        raise _unusable(run.file, "it does not say how large the model is: measure a bundle of this version of edgec")
    work = _workload(run, run.subject.measured, target)
    if work is None:
        raise _unusable(run.file, f"the memory bandwidth of {target.phone} is unknown")
    prefill = median(each.prefill_tokens_per_s for each in run.repetitions)
    where = f"{run.file.name}: {compared.model} {run.subject.recipe} on {target.name}"
    return Observation(where, work, compared.prompt_tokens, prefill, median(decode), str(run.file))


def _measured_on(run: _Run) -> Target:
    """The target of a bundle on the phone that ran it: the one that the user names, the device, or the target's.

    Raises:
        InputError: E867, the target stands for any phone and nothing says which one it was.
    """
    target = load_target(run.subject.target)
    head = next((record for record in run.records if isinstance(record, RunRecord)), None)
    product = head.before.product if head is not None else None
    phone = run.phone or (known_name(product) if product else None)
    if phone in phones():
        return load_target(f"{phone}-{target.unit}-{target.format}")
    if target.alias_of is not None and run.subject.target != "host":
        raise _unusable(run.file, f"{run.subject.target} is made for any phone, and it does not name one", _PHONE_FIX)
    return target


def _workload(run: _Run, model: MeasuredModel, target: Target) -> Workload | None:
    compared, numbers = run.records[0].comparability, model.numbers
    spec, rest = _spec(model, run.subject.context), numbers.matrices - numbers.prompt_matrices
    listed = (
        Parameter("prompt", (numbers.prompt_matrices,), Kind.LINEAR),
        # Only what a later layer has is skipped for a prompt.
        *([Parameter(f"layers.{len(spec.layers) - 1}.rest", (rest,), Kind.LINEAR)] if rest else []),
        Parameter("lm_head", (numbers.lm_head,), Kind.LM_HEAD),
    )
    prompt = max(1, compared.prompt_tokens)
    lengths = (prompt, min(prompt, model.call_tokens), run.subject.context)
    task = Task(spec, listed, model.read_bytes, model.kernels, model.kv_bits, *lengths, model.state_bytes)
    work = workload_of(task, target)
    if work is None or work.model in decoders():
        return work
    return replace(work, model=f"measured {compared.model}")


def _spec(model: MeasuredModel, context: int) -> ModelSpec:
    shapes = [each for alike in model.numbers.layers for each in [alike] * alike.count]
    layers = tuple(
        LayerSpec(index, each.heads, each.kv_heads, each.head_dim, each.window, each.kv_donor)
        for index, each in enumerate(shapes)
    )
    return ModelSpec("measured", 0, 0, context, layers, False)


def _check_alike(one: _Run, other: _Run) -> None:
    """Refuse two files of one bundle on one device whose speeds are far apart."""
    if (one.records[0].comparability, one.subject) != (other.records[0].comparability, other.subject):
        return
    for phase, speeds in (("decoded", _decoding), ("read its prompt at", _reading)):
        medians = sorted(median(each) for run in (one, other) if (each := list(speeds(run))))
        if len(medians) == 2 and medians[1] > _APART * medians[0]:
            raise InputError(
                "Two measurements of one bundle contradict each other.",
                where=f"{one.file}, {other.file}",
                why=f"the same bundle {phase} {medians[0]:,.3g} and {medians[1]:,.3g} tokens/s on the same device",
                fix="measure again on a cool, idle device, and give the file that holds",
                code="E868",
            )


def _decoding(run: _Run) -> Iterator[float]:
    return (each.decode_tokens_per_s for each in run.repetitions if each.decode_tokens_per_s is not None)


def _reading(run: _Run) -> Iterator[float]:
    return (each.prefill_tokens_per_s for each in run.repetitions)


def _unusable(file: Path, why: str, fix: str = _FIX) -> InputError:
    return InputError("Nothing can be learned from this measurement.", where=str(file), why=why, fix=fix, code="E867")
