"""``edgec runner`` compiles the engine and the standalone runner for this machine or for Android phones."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Action(StrEnum):
    """The action on the runner."""

    build = "build"


def runner(
    action: Annotated[Action, typer.Argument(help="build: compile it unless it is compiled already.")],
    abi: Annotated[str, typer.Option(help="native: this machine; arm64: Android phones.")] = "native",
    wheel: Annotated[Path | None, typer.Option(help="ExecuTorch's arm64 wheel, where pip cannot fetch it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compile edgec's engine and its standalone runner into the cache folder, and say where they are.

    Other commands do that on first use. Needs a C++ compiler: CXX, or c++, g++, clang++; for phones CXX_ARM64, or
    aarch64-linux-gnu-g++.

    For example:

    edgec runner build

    edgec runner build --abi arm64

    CXX=clang++ edgec runner build --json
    """
    from edgec.devices.runner.console import build

    build(abi, wheel, json)
