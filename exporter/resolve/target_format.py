"""``--format``: a target's unit of the phone with another kind of artifact."""

from __future__ import annotations

from dataclasses import replace

from edgec.devices.targets import Target, all_targets
from edgec.errors import InputError


def in_format(target: Target, format: str | None) -> Target:
    """The same phone and unit with an artifact of that format; None keeps the target's own.

    Raises:
        InputError: E403, the unit has no such format.
    """
    if format is None or format == target.format:
        return target
    same = [each for each in all_targets() if (each.phone, each.unit) == (target.phone, target.unit)]
    found = next((each for each in same if each.format == format), None)
    if found is None:
        raise InputError(
            what=f"{target.name} has no format {format!r}",
            where="--format",
            why=f"it has {', '.join(each.format for each in same)}",
            fix=f"use --format {same[0].format}, or another target",
            code="E403",
        )
    # An alias keeps its name, so that a family's phone is still chosen by the model.
    return replace(found, name=target.name, alias_of=found.name) if target.alias_of else found
