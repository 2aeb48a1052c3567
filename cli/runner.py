"""``edgec runner`` compiles the engine and the standalone runner for this machine or for Android phones."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Action(StrEnum):
    """What to do with the runner."""

    build = "build"


def runner(
    action: Annotated[Action, typer.Argument(help="build: compile it unless already compiled.")],
    abi: Annotated[str, typer.Option(help="native: this machine; arm64: Android phones.")] = "native",
    wheel: Annotated[Path | None, typer.Option(help="ExecuTorch's arm64 wheel, where pip cannot fetch it.")] = None,
    aar: Annotated[
        Path | None, typer.Option(help="Folder of 'edgec embed --platform android': make its engine's AAR instead.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Path of the AAR; by default FOLDER-engine.aar.")] = None,
    executorch: Annotated[
        Path | None, typer.Option(help="For --aar: an ExecuTorch checkout, instead of fetching it.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compile edgec's engine and its standalone runner into the cache folder, and say where they are.

    Other commands do that on first use. Needs a C++ compiler: CXX, or c++, g++, clang++; for phones CXX_ARM64, or
    aarch64-linux-gnu-g++. An AAR needs Android's NDK: ANDROID_NDK_HOME, or that of the SDK in ANDROID_HOME.

    Examples:
    edgec runner build

    edgec runner build --abi arm64

    CXX=clang++ edgec runner build --json

    edgec runner build --aar NameKit --executorch ~/executorch
    """
    if aar is not None:
        from edgec.apps.embed.console import build_aar

        build_aar(aar, out, executorch, json)
        return
    from edgec.engine.compile.console import build

    build(abi, wheel, json)
