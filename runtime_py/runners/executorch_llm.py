"""ExecuTorch's TextLLMRunner and MultimodalRunner, from its wheel, on an artifact: what they write after prompts.

Apps for Android and Apple that follow ExecuTorch's own guides contain these runners. They read tokenizer.json with a
tokenizer of their own and take the likeliest token where their temperature is 0. The first calls ``forward``; the
second ``token_embedding`` for tokens, ``vision_encoder`` for images, and ``text_decoder`` for what either gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal

from edgec.errors import InputError, ToolError
from edgec.runtime_py.runners.process import RunnerFailed, runner_answer

RunnerClass = Literal["TextLLMRunner", "MultimodalRunner"]
RunnerPrompt = str | Sequence[Sequence[int] | Path]
"""A text, for the first; for the second its pieces in order: tokens, or a file of NumPy's with a tile [1, C, H, W]."""
AUTOMATIC = True
"""Whether an export lets the runner write."""
_WORKER: Final = "edgec.runtime_py.runners.executorch_llm_worker"


@dataclass(frozen=True)
class Continuation:
    """What the runner writes after a text.

    Attributes:
        prompt_tokens: how many tokens it read; None where it ended early.
        pieces: one for each token that it writes. They end early where a token is a part of a character, which the
            runner's Python binding cannot say.
    """

    prompt_tokens: int | None
    pieces: Sequence[str]


@dataclass(frozen=True)
class RunnerAnswer:
    """What the runner says of an artifact.

    Attributes:
        constants: what the artifact's constant methods say, by name; each is a list of numbers.
        texts: one for each prompt that was given; none where it failed.
        failed: its own words where it failed to write.
    """

    constants: Mapping[str, Sequence[int]]
    texts: Sequence[Continuation]
    failed: str


@dataclass(frozen=True)
class LlmRunner:
    """A runner with an artifact.

    Attributes:
        kind: its class.
        artifact: the .pte file.
        tokenizer: tokenizer.json.
        operators: the kernels that the artifact needs, by name.
        begins: how many tokens that begin a text it puts before one.
    """

    kind: RunnerClass
    artifact: Path
    tokenizer: Path
    operators: Sequence[str]
    begins: int = 0

    @property
    def name(self) -> str:
        """What it is called in rungs and messages."""
        return runner_name(self.kind)

    def write(self, prompts: Sequence[RunnerPrompt], tokens: int) -> RunnerAnswer:
        """What it writes after each prompt: at most so many tokens of each.

        Raises:
            ToolError: E848, it could not run the artifact.
            InputError: E849, it cannot read the tokenizer.
        """
        job = {
            "runner": self.kind,
            "artifact": str(self.artifact.resolve()),
            "tokenizer": str(self.tokenizer.resolve()),
            "operators": list(self.operators),
            "begins": self.begins,
            "prompts": [each if isinstance(each, str) else [_piece(part) for part in each] for each in prompts],
            "tokens": tokens,
        }
        try:
            said = runner_answer(_WORKER, job)
        except RunnerFailed as error:
            raise failed_runner(self.name, self.artifact, str(error)) from error
        if said["unreadable"]:
            raise self._unreadable(said["unreadable"])
        return RunnerAnswer(said["constants"], [Continuation(**each) for each in said["texts"]], said["failed"])

    def _unreadable(self, why: str) -> InputError:
        return InputError(
            f"{self.name} cannot read this tokenizer.",
            where="tokenizer.json",
            why=why,
            fix="use edgec's own runtime in the app, or a model whose tokenizer is a fast one of transformers",
            code="E849",
        )


def runner_name(kind: RunnerClass) -> str:
    """What a runner is called in rungs and messages."""
    return f"ExecuTorch's {kind}"


def runner_version() -> str:
    """The version of ExecuTorch that the runner is part of."""
    return version("executorch")


def _piece(part: Sequence[int] | Path) -> list[int] | str:
    return str(part.resolve()) if isinstance(part, Path) else list(part)


def failed_runner(name: str, artifact: Path, why: str) -> ToolError:
    """E848: a runner of this name did not run an artifact."""
    return ToolError(
        f"{name} did not run this artifact.",
        where=str(artifact),
        why=why,
        fix="check this installation with 'edgec doctor'; apps with edgec's own runtime are not affected",
        code="E848",
    )
