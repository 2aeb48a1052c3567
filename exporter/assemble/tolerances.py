"""How far a golden vector's values may move, by the form of the artifact."""

from __future__ import annotations

from typing import TypedDict

from edgec.backends.forms import Form
from edgec.bundle.golden import HALF_TOLERANCE, SIMULATED_SHARE


class Tolerances(TypedDict, total=False):
    """As `output_vector` and `function_vector` take them."""

    relative_tolerance: float
    simulated_share: float


def golden_tolerances(form: Form) -> Tolerances:
    """Tolerances for values on a phone, and where an interpreter simulates a unit of Apple's."""
    if not form.apple_unit:
        return {}
    return {"relative_tolerance": HALF_TOLERANCE, "simulated_share": SIMULATED_SHARE}
