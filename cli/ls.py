"""``edgec ls`` lists the bundles in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def ls(
    folder: Annotated[Path, typer.Argument(help="Where to look; default: here.")] = Path(),
    *,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """List the bundles in a folder, with size, recipe, target and whether the export's comparisons passed.

    Nothing is executed and no checksum is read: edgec verify does both.

    Examples:
    edgec ls

    edgec ls build --json
    """
    from edgec.exporter.report.bundle_list import list_bundles

    list_bundles(folder, json)
