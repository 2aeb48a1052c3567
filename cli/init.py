"""``edgec init`` writes an edgec.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import recipe_names, target_names


def init(
    folder: Annotated[Path, typer.Argument(help="The project's folder; default: here.")] = Path(),
    *,
    model: Annotated[str | None, typer.Option(help="Hub id, folder, config.json or package.module:factory.")] = None,
    target: Annotated[
        list[str] | None, typer.Option(autocompletion=target_names, help="What to export for; repeatable.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(autocompletion=recipe_names, help="A recipe's name or TOML file.")
    ] = None,
    budget: Annotated[list[str] | None, typer.Option(help="NAME=LIMIT for the ladder; repeatable.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write an edgec.toml, so that edgec export needs no arguments here; asks for what no option gives.

    Without a terminal nothing is asked: the target is then host, and the recipe the model's default.

    Examples:
    edgec init

    edgec init --model examples/tiny-stories --target host --recipe 4bit
    """
    from edgec.exporter.resolve.project_questions import write_project

    write_project(folder, model, tuple(target or ()), recipe, tuple(budget or ()), force)
