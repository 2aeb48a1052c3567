"""``edgec doctor`` checks that this installation is complete."""

from __future__ import annotations

from typing import Annotated

import typer


def doctor(
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check versions against what this edgec was built for, the runtime's kernels, memory, disk and device tools.

    Exit status 3 when something required is missing; 'absent' tools are optional.

    Examples:
    edgec doctor

    edgec doctor --json
    """
    from edgec.runtime_py.doctor import examine

    raise typer.Exit(examine(json))
