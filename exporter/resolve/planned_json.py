"""A plan as plain data; ``plan.schema.json`` beside this file says what each field means."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.devices.prediction.app_limit import memory_that_fits
from edgec.exporter.resolve.planned_commands import made_elsewhere, proposed_commands

if TYPE_CHECKING:
    from edgec.errors import EdgecError
    from edgec.exporter.resolve.planned import Planned

SCHEMA_VERSION = 2
SCHEMA = Path(__file__).with_name("plan.schema.json")


def to_json(answered: Planned) -> dict[str, Any]:
    """The plan with its commands; null is unknown or unavailable."""
    question, forecast = answered.question, answered.plan
    peak = forecast.footprint.peak_bytes.high
    record = {
        "schema_version": SCHEMA_VERSION,
        "model": question.model,
        **forecast.to_json(),
        "notes": answered.notes,
        "recipe": answered.recipe,
        "target_choice": answered.target_choice,
        "refusal": _refusal(answered.refusal),
        "memory_that_fits_bytes": memory_that_fits(forecast.target, peak),
        "made_elsewhere": made_elsewhere(forecast.target),
        "phase_units": [asdict(phase) for phase in answered.phases],
        "runtimes": [asdict(each) for each in answered.runtimes],
        "commands": [asdict(command) for command in proposed_commands(answered)],
    }
    plain: dict[str, Any] = json.loads(json.dumps(record))
    return plain


def _refusal(error: EdgecError | None) -> dict[str, str] | None:
    if error is None:
        return None
    return {"code": error.code, "what": error.what, "why": error.why, "fix": error.fix}
