"""``edgec split`` cuts a bundle into parts for a download, and joins them again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import bundle_names


def split(
    bundle: Annotated[
        Path,
        typer.Argument(
            autocompletion=bundle_names, help="NAME.edgec or hub:OWNER/NAME; with --join the folder NAME.parts."
        ),
    ],
    *,
    out: Annotated[Path | None, typer.Option(help="What is written; default: NAME.parts, or NAME.edgec.")] = None,
    part_mb: Annotated[int, typer.Option(help="Size of a part in MB (millions of bytes), 1 to 100.")] = 100,
    join: Annotated[bool, typer.Option("--join", help="Put a bundle together from its parts, checking them.")] = False,
    digest: Annotated[str | None, typer.Option(help="With --join: the digest that the manifest must have.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Cut a bundle into parts for a download, or join parts into a bundle.

    The parts can be served by any web server; the packages of edgec embed have a downloader for them that goes on after
    a cut and checks every byte: see edgec help download. The bundle is checked before it is split. A join that was
    stopped, or that lacked a part, goes on when it is called again.

    Examples:
    edgec split tiny-stories-android-cpu.edgec

    edgec split tiny-stories-android-cpu.edgec --out download.parts --part-mb 25 --json

    edgec split --join tiny-stories-android-cpu.parts --out joined.edgec
    """
    from edgec.runtime_py.verify.parts_console import join_and_print, split_and_print

    if join:
        join_and_print(bundle, out, digest, as_json=json)
    else:
        split_and_print(bundle, out, part_mb, digest, as_json=json)
