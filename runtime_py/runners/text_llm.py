"""ExecuTorch's TextLLMRunner, from its wheel, on a decoder's artifact: what it writes after texts.

Apps for Android and Apple that follow ExecuTorch's own guides contain this runner. It reads tokenizer.json with a
tokenizer of its own, calls the method ``forward``, and takes the likeliest token where its temperature is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from edgec.errors import InputError, ToolError
from edgec.runtime_py.runners.process import RunnerFailed, runner_answer

NAME: Final = "ExecuTorch's TextLLMRunner"
AUTOMATIC = True
"""Whether an export lets the runner write."""
_WORKER: Final = "edgec.runtime_py.runners.text_llm_worker"


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
        texts: one for each text that was given; none where it failed.
        failed: its own words where it failed to write.
    """

    constants: Mapping[str, Sequence[int]]
    texts: Sequence[Continuation]
    failed: str


@dataclass(frozen=True)
class TextLLM:
    """The runner with an artifact.

    Attributes:
        artifact: the .pte file.
        tokenizer: tokenizer.json.
        operators: the kernels that the artifact needs, by name.
        begins: how many tokens that begin a text it puts before one.
    """

    artifact: Path
    tokenizer: Path
    operators: Sequence[str]
    begins: int

    def write(self, texts: Sequence[str], tokens: int) -> RunnerAnswer:
        """What it writes after each text: at most so many tokens of each.

        Raises:
            ToolError: E848, it could not run the artifact.
            InputError: E849, it cannot read the tokenizer.
        """
        job = {
            "artifact": str(self.artifact.resolve()),
            "tokenizer": str(self.tokenizer.resolve()),
            "operators": list(self.operators),
            "begins": self.begins,
            "texts": list(texts),
            "tokens": tokens,
        }
        try:
            said = runner_answer(_WORKER, job)
        except RunnerFailed as error:
            raise _failed(self.artifact, str(error)) from error
        if said["unreadable"]:
            raise _unreadable(said["unreadable"])
        return RunnerAnswer(said["constants"], [Continuation(**each) for each in said["texts"]], said["failed"])


def runner_version() -> str:
    """The version of ExecuTorch that the runner is part of."""
    return version("executorch")


def _unreadable(why: str) -> InputError:
    return InputError(
        f"{NAME} cannot read this tokenizer.",
        where="tokenizer.json",
        why=why,
        fix="use edgec's own runtime in the app, or a model whose tokenizer is a fast one of transformers",
        code="E849",
    )


def _failed(artifact: Path, why: str) -> ToolError:
    return ToolError(
        f"{NAME} did not run this artifact.",
        where=str(artifact),
        why=why,
        fix="check this installation with 'edgec doctor'; apps with edgec's own runtime are not affected",
        code="E848",
    )
