"""Which runtime of others' executes an artifact as one more rung of the ladder."""

from __future__ import annotations

from pathlib import Path

from edgec.bundle.findings import Rung
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners.genai import genai_rung
from edgec.exporter.runners.text_llm import text_runner_rung
from edgec.exporter.stages.compiled import Facts


def other_runtime_rung(artifact: Path, facts: Facts, request: ExportRequest, epsilon: float) -> Rung | None:
    """The rung of the runtime that apps have for such an artifact; None where there is none, or it is turned off.

    ``epsilon``: how far two logits of right executions may differ.
    """
    if request.form.laid_out:
        return text_runner_rung(artifact, facts.operators, request, epsilon)
    return genai_rung(artifact, facts, request, epsilon) if request.form.growing else None
