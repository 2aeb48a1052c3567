"""onnxruntime-genai, from its wheel, on a bundle in its layout: what it reads, and what it writes after texts.

Apps for Android, Windows and macOS contain this runtime, Foundry Local among them. It reads genai_config.json and the
tokenizer's files with code of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from edgec.errors import ToolError
from edgec.installation import install_command
from edgec.runtime_py.runners.process import RunnerFailed, runner_answer

NAME: Final = "onnxruntime-genai"
AUTOMATIC = True
"""Whether an export lets it write."""
_WORKER: Final = "edgec.runtime_py.runners.genai_worker"
_MODULE: Final = "onnxruntime_genai"


@dataclass(frozen=True)
class GenaiAnswer:
    """What it says of a folder.

    Attributes:
        bos: the id that begins a text; None where there is no tokenizer.
        ending: whether each token that it was asked about ends a text.
        longest: the most tokens of a text.
        ids: those that its tokenizer makes of each text; none where it cannot read the tokenizer.
        chats: each conversation as its reader of chat templates renders it; empty where that refuses.
        unreadable: why it cannot read the tokenizer; empty where it can.
        texts: the tokens that it writes after each prompt; none where it failed.
        failed: its own words where it failed to write.
    """

    bos: int | None
    ending: Sequence[bool]
    longest: int
    ids: Sequence[Sequence[int]]
    chats: Sequence[str]
    unreadable: str
    texts: Sequence[Sequence[int]]
    failed: str


def is_installed() -> bool:
    """Whether its package is there."""
    return find_spec(_MODULE) is not None


def genai_version() -> str:
    """Its version, or ``not installed``."""
    try:
        return version(NAME)
    except PackageNotFoundError:
        return "not installed"


@dataclass(frozen=True)
class GenaiQuestion:
    """What it is asked.

    Attributes:
        texts: for its tokenizer.
        chats: conversations for its reader of chat templates, each a list of messages.
        prompts: token ids that it continues, the likeliest token each time.
        tokens: the most that it writes after each.
        ends: tokens of which it says whether they end a text.
        size: of the vocabulary.
        hexagon: with Qualcomm's plug-in, which then executes what the folder gives to it.
    """

    texts: Sequence[str]
    chats: Sequence[Sequence[Mapping[str, str]]]
    prompts: Sequence[Sequence[int]]
    tokens: int
    ends: Sequence[int]
    size: int
    hexagon: bool = False


def asked_genai(folder: Path, question: GenaiQuestion) -> GenaiAnswer:
    """Let it open a folder with genai_config.json, and answer.

    Raises:
        ToolError: E856, it is not installed, or could not open the folder.
    """
    if not is_installed():
        raise _failed(folder, f"{NAME} is not installed", install_command("genai"))
    try:
        return GenaiAnswer(**runner_answer(_WORKER, {"folder": str(folder.resolve()), **asdict(question)}))
    except RunnerFailed as error:
        raise _failed(folder, str(error), "check the versions of onnxruntime and onnxruntime-genai") from error


def _failed(folder: Path, why: str, fix: str) -> ToolError:
    return ToolError(f"{NAME} did not open this model.", where=str(folder), why=why, fix=fix, code="E856")
