"""How far a golden vector's values may move, by the form of the artifact."""

from __future__ import annotations

from edgec.backends.forms import Form
from edgec.bundle.golden import HALF_TOLERANCE, SIMULATED_SHARE


def golden_tolerances(form: Form) -> dict[str, float]:
    """Tolerances for values on a phone, and where an interpreter simulates the Neural Engine."""
    if not form.neural_engine:
        return {}
    return {"relative_tolerance": HALF_TOLERANCE, "simulated_share": SIMULATED_SHARE}
