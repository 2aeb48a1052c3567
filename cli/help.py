"""``edgec help`` shows a page of the guide, or a command's help."""

from __future__ import annotations

from typing import Annotated

import typer

from edgec.cli.completions import topic_names


def help(
    topic: Annotated[
        str | None,
        typer.Argument(
            autocompletion=topic_names, help="A page such as recipes, targets, bundle; a command; or an error's code."
        ),
    ] = None,
) -> None:
    """Show a page of the guide, which is installed along with edgec, the help of a command, or what an error means.

    At a terminal the page is set in colour, elsewhere it is printed as it is written (Markdown).

    Examples:
    edgec help

    edgec help recipes

    edgec help E103

    edgec help errors | less
    """
    from edgec.cli.app import COMMANDS, help_of
    from edgec.guide import show_topic, topics

    if topic in COMMANDS and topic not in topics():
        typer.echo(help_of(str(topic)))
    else:
        show_topic(topic)
