"""``edgec push`` publishes a bundle on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import bundle_names


def push(
    bundle: Annotated[
        Path, typer.Argument(autocompletion=bundle_names, help="The bundle folder, NAME.edgec, or hub:OWNER/NAME.")
    ],
    hub_id: Annotated[str, typer.Argument(help="The repository: OWNER/NAME, or OWNER/NAME@BRANCH.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Push; without it, list what would be pushed.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    revision: Annotated[str | None, typer.Option(help="Branch, made where it is missing; default: main.")] = None,
    message: Annotated[str | None, typer.Option(help="Of the commit; default: name, recipe and target.")] = None,
    base_model: Annotated[
        str | None, typer.Option(help="Hub id of the source model; default: the one that was exported.")
    ] = None,
    card: Annotated[bool, typer.Option("--card", help="Print the model card, and push nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace another model's bundle, and a model card of yours.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Publish a bundle on the Hugging Face hub, with a model card made from its manifest.

    Every file is checked first. The repository is made where it is missing, and holds the old bundle or the new one,
    never a mixture. It is not replaced where it holds another model, or another target's bundle, unless --force is
    given. A push that was interrupted goes on when it is called again. Log in with `hf auth login`, or set HF_TOKEN.

    Examples:
    edgec push tiny-stories-host.edgec OWNER/tiny-stories-host

    edgec push tiny-stories-host.edgec OWNER/tiny-stories-host --yes --private

    edgec push tiny-stories-iphone.edgec OWNER/tiny-stories --revision iphone --base-model OWNER/tiny-stories --card

    edgec run hub:OWNER/tiny-stories-host -p "Once upon a time"
    """
    from edgec.exporter.publish.console import push_and_print

    push_and_print(
        bundle,
        hub_id,
        revision,
        yes=yes,
        as_json=json,
        private=private,
        message=message,
        base_model=base_model,
        force=force,
        show_card=card,
    )
