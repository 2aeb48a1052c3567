"""Which runtime of others' executes an artifact in further rungs of the ladder."""

from __future__ import annotations

from pathlib import Path

from edgec.bundle.findings import Rung
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners.genai import genai_rungs
from edgec.exporter.runners.litert_lm import litert_lm_rungs
from edgec.exporter.runners.multimodal import multimodal_rung
from edgec.exporter.runners.seq2seq import seq2seq_rung
from edgec.exporter.runners.text_llm import text_runner_rung
from edgec.exporter.sources.hf_config import ENCODER_DECODER
from edgec.exporter.stages.compiled import Facts


def other_runtime_rungs(artifact: Path, facts: Facts, request: ExportRequest, epsilon: float) -> list[Rung]:
    """The rungs of the runtime that apps have for such an artifact; none where there is none, or it is turned off.

    ``epsilon``: how far two logits of right executions may differ.
    """
    if request.form.growing or request.form.piped:
        return genai_rungs(artifact, facts, request, epsilon)
    if request.form.packed:
        return litert_lm_rungs(artifact, request, epsilon)
    if not request.form.laid_out:
        return []
    if request.source.kind == "vision-language":
        rung = multimodal_rung(artifact, facts, request, epsilon)
    elif request.source.kind == ENCODER_DECODER:
        rung = seq2seq_rung(artifact, facts.operators, request, epsilon)
    else:
        rung = text_runner_rung(artifact, facts.operators, request, epsilon)
    return [] if rung is None else [rung]
