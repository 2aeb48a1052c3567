"""The choice that ``--target iphone`` makes: the oldest iPhone that a model fits, with the reason.

A phone fits where its system and chip can load the format and the system is known to grant an app enough memory. Apple
publishes no such limits; where nobody measured one, those of other phones are bounds (``app_limit.py``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from edgec.devices.prediction.app_limit import app_limit
from edgec.devices.targets import Target, aliases, all_targets
from edgec.errors import InputError

FAMILY = "iphone"
CHOICE = "the oldest iPhone that the model fits"


@dataclass(frozen=True)
class Fit:
    """The phone that was chosen.

    Attributes:
        target: the oldest phone that fits.
        reason: one sentence on why it was chosen.
        entitled: it fits only with the increased-memory-limit entitlement.
    """

    target: Target
    reason: str
    entitled: bool


def stands_for(alias: str) -> str:
    """What an alias stands for: a target's full name, or for a family's name, how its phone is chosen.

    Raises:
        KeyError: the alias does not exist.
    """
    return CHOICE if alias == FAMILY else aliases()[alias]


def minimum_os(form: str, backend: str) -> str:
    """The oldest system that loads a backend's format, as ``major.minor``.

    Raises:
        KeyError: the backend does not make that format.
    """
    return str(_formats()[form][backend]["minimum_os"])


def oldest_fit(
    needed_bytes: int, form: str, minimum: str | None = None, unit: str = "npu", family: str = FAMILY
) -> Fit:
    """The oldest phone of a family that a model fits.

    Args:
        needed_bytes: weights, states and activations in memory.
        form: ``pte``, ``mlpackage`` or ``aimodel``.
        minimum: the oldest system to support, as ``major.minor``; None for the format's own.
        unit: ``cpu``, ``gpu`` or ``npu``.
        family: how the phones' keys begin.

    Raises:
        InputError: E467, none fits.
    """
    named = [t for t in all_targets() if t.phone.startswith(family) and t.unit == unit and t.format == form]
    dated = sorted((t for t in named if t.released), key=lambda t: (str(t.released), t.memory_bytes or 0, t.phone))
    for place, target in enumerate(dated):
        fault = _fault(target, needed_bytes, minimum)
        if fault is None:
            return _fit(target, needed_bytes, dated[:place], minimum)
    raise _none(named, dated, needed_bytes, minimum)


def _fit(target: Target, needed: int, older: Sequence[Target], minimum: str | None) -> Fit:
    plain, entitled = (app_limit(target, with_entitlement=choice) for choice in (False, True))
    without = plain is not None and needed <= plain.low_bytes
    limit = plain if without else entitled
    assert limit is not None  # _fault found one that is large enough
    right = "" if without else ", with the increased-memory-limit entitlement"
    where = "" if limit.phone_name == target.phone_name else f", taken from the {limit.phone_name} as a lower bound"
    grants = f"grants an app there at least {_size(limit.low_bytes)}{right}{where}"
    before = f"; the {older[-1].phone_name} does not fit: {_fault(older[-1], needed, minimum)}" if older else ""
    why = f"the model needs {_size(needed)} (estimated), and the system {grants}"
    return Fit(target, f"Runs on {target.phone_name} or newer (estimated): {why}{before}", not without)


def _fault(target: Target, needed: int, minimum: str | None) -> str | None:
    """Why the model does not fit a phone; None where it does."""
    row = _formats().get(target.format, {}).get(target.backend, {})
    system = max(filter(None, (minimum, row.get("minimum_os"))), key=_version, default="0")
    if target.newest_os is None or _version(target.newest_os) < _version(system):
        return f"it is not known to run iOS {system}"
    if "chips" in row and target.chip not in row["chips"]:
        return f"{target.format} needs a chip other than its {target.chip_name}"
    limit = app_limit(target, with_entitlement=True)
    if limit is None:
        return "what the system grants an app there is unknown"
    if needed > limit.low_bytes:
        return f"an app there is granted only {_size(limit.low_bytes)}"
    return None


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _none(named: Sequence[Target], dated: Sequence[Target], needed: int, minimum: str | None) -> InputError:
    newest = dated[-1] if dated else (named[-1] if named else None)
    why = f"{newest.phone_name}: {_fault(newest, needed, minimum)}" if newest else "no phone has that unit and format"
    return InputError(
        f"no known iPhone fits a model of {_size(needed)} (estimated)",
        where="--target iphone",
        why=why,
        fix="use fewer bits, a shorter --context or another --format; edgec plan shows what takes the memory",
        code="E467",
    )


@cache
def _formats() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    return tomllib.loads((Path(__file__).parent / "formats.toml").read_text(encoding="utf-8"))
