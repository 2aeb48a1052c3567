"""LiteRT-LM's engine, from its wheel, on a ``.litertlm``: what it reads of it, and what it writes.

Android apps contain this runtime. It takes texts and conversations, never token ids, and gives no logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes.util import find_library
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from edgec.errors import ToolError
from edgec.installation import install_command
from edgec.runtime_py.runners.process import RunnerFailed, runner_answer

NAME: Final = "LiteRT-LM"
AUTOMATIC = True
"""Whether an export lets it write."""
_WORKER: Final = "edgec.runtime_py.runners.litert_lm_worker"
_MODULE: Final = "litert_lm"
_PACKAGE: Final = "litert-lm-api"
SWIFTSHADER: Final = (
    "/usr/lib/chromium/libvk_swiftshader.so",
    "/usr/lib/chromium-browser/libvk_swiftshader.so",
    "/opt/google/chrome/libvk_swiftshader.so",
)
"""Where browsers keep a software implementation of Vulkan."""


@dataclass(frozen=True)
class LitertLmText:
    """What it wrote after one prompt or conversation: how many tokens it read, and a piece of text for each token."""

    read: int
    pieces: Sequence[str]


@dataclass(frozen=True)
class LitertLmAnswer:
    """What it says of a file.

    Attributes:
        begins: the id that it puts before a text; None where it puts none.
        ends: the ids that end a text.
        ids: those that its tokenizer makes of each text.
        rendered: each conversation's last turn, as its reader of chat templates writes it.
        written: after each prompt, then after each conversation.
        failed: its own words where it failed to write.
    """

    begins: int | None
    ends: Sequence[int]
    ids: Sequence[Sequence[int]]
    rendered: Sequence[str]
    written: Sequence[LitertLmText]
    failed: str


@dataclass(frozen=True)
class LitertLmQuestion:
    """What it is asked.

    Attributes:
        texts: for its tokenizer.
        prompts: texts that it continues, the likeliest token each time.
        chats: conversations that it answers, each a list of messages.
        tokens: the most that it writes after each.
        vulkan: a library that implements Vulkan, for its GPU backend; empty: the CPU's.
    """

    texts: Sequence[str]
    prompts: Sequence[str]
    chats: Sequence[Sequence[Mapping[str, str]]]
    tokens: int
    vulkan: str = ""


def is_installed() -> bool:
    """Whether its package is there."""
    return find_spec(_MODULE) is not None


def litert_lm_version() -> str:
    """Its version, or ``not installed``."""
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return "not installed"


def software_vulkan() -> str:
    """SwiftShader's library; empty where no browser brings one, or Vulkan's loader is missing."""
    if find_library("vulkan") is None:
        return ""
    return next((place for place in SWIFTSHADER if Path(place).is_file()), "")


def asked_litert_lm(file: Path, question: LitertLmQuestion) -> LitertLmAnswer:
    """Let it open a ``.litertlm``, and answer.

    Raises:
        ToolError: E908, it is not installed, or could not open the file.
    """
    if not is_installed():
        raise _failed(file, f"{_PACKAGE} is not installed", install_command("litert"))
    try:
        said = runner_answer(_WORKER, {"file": str(file.resolve()), **asdict(question)})
    except RunnerFailed as error:
        raise _failed(file, str(error), f"check the version of {_PACKAGE}") from error
    return LitertLmAnswer(**{**said, "written": [LitertLmText(**each) for each in said["written"]]})


def _failed(file: Path, why: str, fix: str) -> ToolError:
    return ToolError(f"{NAME} did not open this model.", where=file.name, why=why, fix=fix, code="E908")
