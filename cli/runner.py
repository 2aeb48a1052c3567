"""``edgec runner``: the engine and the standalone runner, compiled for this machine."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Action(StrEnum):
    """What to do with the runner."""

    build = "build"


def runner(
    action: Annotated[Action, typer.Argument(help="build: compile it unless that was done before.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compile edgec's engine and its standalone runner into the cache folder, and say where they are.

    Other commands do that on first use. Needs a C++ compiler (CXX, or c++, g++, clang++).

    For example:

    edgec runner build

    CXX=clang++ edgec runner build --json
    """
    from edgec.devices.runner_console import build

    build(json)
