"""What rungs of ExecuTorch's own runners share: the runner is asked, and its words are compared with edgec's.

What the artifact says wrong ends an export: a constant, or other words after the same number of tokens. That a runner
reads a prompt as another number of tokens, or fails, is told and ends nothing: its tokenizer may be at fault, and an
app need not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from edgec.bundle.findings import Rung
from edgec.errors import InputError, ToolError
from edgec.exporter.bundled_tokenizer import tokenizer_contents
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners.texts import agreed, told
from edgec.exporter.runners.words import OwnText, agreement
from edgec.exporter.stages.cpu_methods import runner_facts
from edgec.runtime_py.runners import executorch_llm
from edgec.runtime_py.runners.executorch_llm import (
    Continuation,
    LlmRunner,
    RunnerAnswer,
    RunnerClass,
    RunnerPrompt,
    runner_name,
    runner_version,
)

if TYPE_CHECKING:
    from edgec.backends.cpu.text_runner import RunnerFacts

_TOKENIZER = "tokenizer/tokenizer.json"


@dataclass(frozen=True)
class Continued:
    """Prompts for a runner, and what edgec's own runtime writes after them.

    Attributes:
        kind: the runner's class.
        begins: how many tokens that begin a text it puts before one.
        prompts: as it is given them.
        counts: the tokens of each, to edgec.
        tokens: the most that it writes after each.
        own: edgec's words, by the calls that the runner makes.
    """

    kind: RunnerClass
    begins: int
    prompts: Sequence[RunnerPrompt]
    counts: Sequence[int]
    tokens: int
    own: Callable[[], Sequence[OwnText]]


def asked_facts(request: ExportRequest) -> RunnerFacts | None:
    """What the artifact tells a runner; None where runners are turned off, or cannot take such a bundle."""
    tokenizer = request.tokenizer
    if not executorch_llm.AUTOMATIC or tokenizer is None:
        return None
    there = _TOKENIZER in tokenizer_contents(request.source.tokenizer_files, tokenizer)
    return runner_facts(request) if there else None


def runner_rung(
    artifact: Path, operators: Sequence[str], request: ExportRequest, asked: Continued, epsilon: float
) -> Rung:
    """Let a runner continue prompts, and compare; ``epsilon``: how far two logits of right executions may differ."""
    name, facts = runner_name(asked.kind), runner_facts(request)
    assert facts is not None
    try:
        written = _written(artifact, operators, request, asked)
    except (InputError, ToolError) as error:
        return told(name, f"not run: {error.why}", gated=False)
    if wrong := wrong_constants(written.constants, facts):
        return told(name, wrong, gated=True)
    if odd := written.failed or _wrong_counts(asked.counts, written.texts):
        return told(name, odd, gated=False)
    pairs = zip(asked.own(), written.texts, strict=True)
    found = [agreement(request.tokenizer, text, other.pieces, facts.ends, epsilon) for text, other in pairs]
    unit = " in words, which it writes without spaces" if any(each.unspaced for each in found) else " in words"
    return agreed(name, f"executorch {runner_version()} and its tokenizer", unit, found, epsilon)


def _written(artifact: Path, operators: Sequence[str], request: ExportRequest, asked: Continued) -> RunnerAnswer:
    content = tokenizer_contents(request.source.tokenizer_files, request.tokenizer)[_TOKENIZER]
    with TemporaryDirectory() as folder:
        place = Path(folder) / "tokenizer.json"
        place.write_bytes(content.read_bytes() if isinstance(content, Path) else content)
        return LlmRunner(asked.kind, artifact, place, operators, asked.begins).write(asked.prompts, asked.tokens)


def wrong_constants(said: Mapping[str, Sequence[int]], facts: RunnerFacts) -> str:
    """Which constant of the artifact is not the model's, in words; empty where all are."""
    wanted = {name: value if isinstance(value, list) else [int(value)] for name, value in facts.constants.items()}
    wrong = [f"{name} says {said.get(name)}, not {value}" for name, value in wanted.items() if said.get(name) != value]
    return "; ".join(wrong)


def _wrong_counts(counts: Sequence[int], written: Sequence[Continuation]) -> str:
    """Which prompt is of another number of tokens to the runner than to edgec, in words; empty where none is."""
    pairs = [(each.prompt_tokens, count) for each, count in zip(written, counts, strict=True)]
    wrong = [f"it read {read} tokens of a text of {count}" for read, count in pairs if read not in (None, count)]
    return "; ".join(wrong)
