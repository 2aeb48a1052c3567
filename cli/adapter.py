"""``edgec adapter`` makes a small file of a LoRA that PEFT trained, for one bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import bundle_names


def adapter(
    bundle: Annotated[
        Path, typer.Argument(autocompletion=bundle_names, help="The bundle folder, NAME.edgec, or hub:OWNER/NAME.")
    ],
    peft_folder: Annotated[Path, typer.Argument(help="What PEFT's save_pretrained wrote.")],
    *,
    out: Annotated[Path | None, typer.Option(help="File to write; FOLDER.adapter by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Make an adapter of a LoRA that PEFT trained, for a bundle that stays as it is.

    Modules, ranks, shapes and numbers are checked against the bundle, and what edgec would not compute exactly is
    refused by name. The file belongs to this bundle's artifact alone (docs/adapters.md).

    Examples:
    edgec adapter tiny-stories-host.edgec pirate-lora --out pirate.adapter

    edgec run tiny-stories-host.edgec --adapter pirate.adapter -p "Once upon a time"
    """
    from edgec.runtime_py.adapters.console import print_made
    from edgec.runtime_py.adapters.make import make_adapter

    print_made(make_adapter(bundle, peft_folder, out, force), json)
