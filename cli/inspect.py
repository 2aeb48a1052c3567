"""``edgec inspect`` shows the contents of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import bundle_names


def inspect(
    bundle: Annotated[
        Path, typer.Argument(autocompletion=bundle_names, help="The bundle folder, NAME.edgec, or hub:OWNER/NAME.")
    ],
    *,
    json: Annotated[bool, typer.Option("--json", help="The manifest as JSON on stdout.")] = False,
) -> None:
    """Show a bundle's model, methods, states, passes, parity, delegation and size ledger.

    Examples:
    edgec inspect tiny-stories-host.edgec

    edgec inspect tiny-stories-host.edgec --json
    """
    from edgec.exporter.report.inspect_tables import print_bundle

    print_bundle(bundle, as_json=json)
