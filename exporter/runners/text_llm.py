"""A decoder's artifact in ExecuTorch's own runner of language models: a rung of the parity ladder.

    text -> edgec's tokenizer    -> forward_rows -> the likeliest tokens, their text -+
         -> TextLLMRunner's own  -> forward      -> pieces of text -------------------+-> the same words

Both make the same calls: the prompt in chunks, then single tokens. The first text fits one chunk, the second does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgec.bundle.entry_points import FORWARD, FORWARD_ROWS
from edgec.bundle.findings import Rung
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners.executorch import Continued, asked_facts, runner_rung
from edgec.exporter.runners.texts import TOKENS, RunnerText, greedy_text, runner_texts
from edgec.exporter.runners.words import OwnText
from edgec.exporter.stages.artifact import step_of


def text_runner_rung(artifact: Path, operators: Sequence[str], request: ExportRequest, epsilon: float) -> Rung | None:
    """Let the runner continue two texts, and compare with what edgec's own runtime writes of the same artifact.

    Args:
        artifact: the .pte file of a decoder for a CPU; it passed the other rungs.
        operators: the kernels that it needs, by name.
        request: what is exported.
        epsilon: how far two logits of right executions may differ.

    Returns:
        None where it is turned off, and where the runner cannot take such a bundle: without a tokenizer.json, or where
        rows are not just chosen.
    """
    facts = asked_facts(request)
    prompts = runner_texts(request) if facts is not None and _has_method(artifact) else []
    if facts is None or not prompts:
        return None
    chunk, ends = facts.chunk, facts.ends

    def own() -> list[OwnText]:
        step = step_of(artifact, request.form)
        return [greedy_text(step, prompt.ids, chunk, ends) for prompt in prompts]

    texts, counts = [prompt.text for prompt in prompts], [len(prompt.ids) for prompt in prompts]
    asked = Continued("TextLLMRunner", _begins(prompts[0], request.tokenizer), texts, counts, TOKENS, own)
    return runner_rung(artifact, operators, request, asked, epsilon)


def _begins(prompt: RunnerText, tokenizer: Any) -> int:
    """How many tokens the tokenizer puts before a text: the runner is told, since it adds none of itself."""
    return int(prompt.ids[0] == getattr(tokenizer, "bos_token_id", None))


def _has_method(artifact: Path) -> bool:
    from edgec.bundle.pte_layout import method_names

    return {FORWARD, FORWARD_ROWS} <= set(method_names(artifact))
