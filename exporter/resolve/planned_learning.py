"""The user's own measurements, as a plan learns from them, and what the plan says of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isclose

from edgec.devices.prediction.calibration import Observation
from edgec.devices.prediction.parameters import DecoderShape, Kind
from edgec.devices.prediction.speed import Measured
from edgec.devices.targets import Target

_THIS_MODEL = "the planned model"
"""What the forecast calls a model that nobody published speeds of."""

_NEAR = 0.02
"""Norms and biases, which a measurement does not count, are less of a model's parameters."""


@dataclass(frozen=True)
class History:
    """Measurements that ``edgec bench`` kept in the cache, of the phone that is planned for."""

    observations: Measured = ()

    def beside(self, given: Measured) -> Measured:
        """All measurements, those once that the user also gives as files."""
        alike = {(each.workload, each.decode_tokens_per_s) for each in given}
        return (*given, *(each for each in self.observations if (each.workload, each.decode_tokens_per_s) not in alike))


def as_this_model(measured: Measured, shape: DecoderShape) -> Measured:
    """The measurements; those of the planned model itself say so, where it is not among the published ones."""
    return tuple(_named(each, shape) for each in measured)


def _named(one: Observation, shape: DecoderShape) -> Observation:
    if not _is_this(one, shape) or not one.workload.model.startswith("measured "):
        return one
    return replace(one, workload=replace(one.workload, model=_THIS_MODEL))


def _is_this(one: Observation, shape: DecoderShape) -> bool:
    counted = (Kind.LINEAR, Kind.LM_HEAD)
    parameters = sum(each.count * each.active for each in shape.parameters if each.kind in counted)
    same = isclose(one.workload.parameters, parameters, rel_tol=_NEAR)
    return same and one.workload.layers == len(shape.spec.layers)


def learning_notes(measured: Sequence[Observation], history: History, shape: DecoderShape, target: Target) -> list[str]:
    """What each measurement teaches, and which do not count for the planned unit."""
    notes = []
    for one in measured:
        if one.workload.unit != target.unit:
            notes.append(f"{one.row} was measured on the {one.workload.unit}, and does not count for the {target.unit}")
        elif not _is_this(one, shape):
            notes.append(f"{one.row} is another model: it teaches how fast the phone is, not how this model runs")
    if history.observations:
        runs = f"{len(history.observations)} earlier runs" if len(history.observations) > 1 else "an earlier run"
        notes.append(f"edgec bench kept {runs} on this phone, which count here; --no-history leaves them out")
    return notes
