"""A decoder's artifact in ExecuTorch's own runner of language models: a rung of the parity ladder.

    text -> edgec's tokenizer    -> forward_rows -> the likeliest tokens, their text -+
         -> TextLLMRunner's own  -> forward      -> pieces of text -------------------+-> the same words

Both make the same calls: the prompt in chunks, then single tokens. The first text fits one chunk, the second does not.
What the artifact says wrong ends an export: a constant, or other words after the same number of tokens. That the runner
reads a text as another number of tokens, or fails, is told and ends nothing: its tokenizer may be at fault, and an app
need not have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from edgec.backends.cpu.text_runner import RunnerFacts
from edgec.bundle.entry_points import FORWARD, FORWARD_ROWS
from edgec.bundle.findings import Rung
from edgec.errors import InputError, ToolError
from edgec.exporter.assemble.tokenizer import tokenizer_contents
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners.texts import TOKENS, RunnerText, agreed, greedy_text, runner_texts, told
from edgec.exporter.runners.words import agreement
from edgec.exporter.stages.artifact import step_of
from edgec.exporter.stages.cpu_methods import runner_facts
from edgec.runtime_py.runners import text_llm
from edgec.runtime_py.runners.text_llm import NAME, Continuation, TextLLM, runner_version


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
    tokenizer, name = request.tokenizer, "tokenizer/tokenizer.json"
    facts = runner_facts(request) if text_llm.AUTOMATIC and tokenizer is not None else None
    if facts is None:
        return None
    files = tokenizer_contents(request.source.tokenizer_files, tokenizer)
    prompts = runner_texts(request) if name in files and _has_method(artifact) else []
    if not prompts:
        return None
    with TemporaryDirectory() as folder:
        place, content = Path(folder) / "tokenizer.json", files[name]
        place.write_bytes(content.read_bytes() if isinstance(content, Path) else content)
        runner = TextLLM(artifact, place, operators, _begins(prompts[0], tokenizer))
        try:
            written = runner.write([prompt.text for prompt in prompts], TOKENS)
        except (InputError, ToolError) as error:
            return told(NAME, f"not run: {error.why}", gated=False)
    if wrong := _wrong_constants(written.constants, facts):
        return told(NAME, wrong, gated=True)
    if odd := written.failed or _wrong_counts(prompts, written.texts):
        return told(NAME, odd, gated=False)
    step, ends = step_of(artifact, request.form), facts.ends
    own = [greedy_text(step, prompt.ids, facts.chunk, ends) for prompt in prompts]
    pairs = zip(own, written.texts, strict=True)
    found = [agreement(tokenizer, text, other.pieces, ends, epsilon) for text, other in pairs]
    return agreed(NAME, f"executorch {runner_version()} and its tokenizer", " in words", found, epsilon)


def _begins(prompt: RunnerText, tokenizer: Any) -> int:
    """How many tokens the tokenizer puts before a text: the runner is told, since it adds none of itself."""
    return int(prompt.ids[0] == getattr(tokenizer, "bos_token_id", None))


def _wrong_constants(said: Mapping[str, Sequence[int]], facts: RunnerFacts) -> str:
    """Which constant of the artifact is not the model's, in words; empty where all are."""
    wanted = {name: value if isinstance(value, list) else [int(value)] for name, value in facts.constants.items()}
    wrong = [f"{name} says {said.get(name)}, not {value}" for name, value in wanted.items() if said.get(name) != value]
    return "; ".join(wrong)


def _wrong_counts(prompts: Sequence[RunnerText], written: Sequence[Continuation]) -> str:
    """Which text is of another number of tokens to the runner than to edgec, in words; empty where none is."""
    counts = [(each.prompt_tokens, len(prompt.ids)) for each, prompt in zip(written, prompts, strict=True)]
    wrong = [f"it read {read} tokens of a text of {count}" for read, count in counts if read not in (None, count)]
    return "; ".join(wrong)


def _has_method(artifact: Path) -> bool:
    from edgec.bundle.pte_layout import method_names

    return {FORWARD, FORWARD_ROWS} <= set(method_names(artifact))
