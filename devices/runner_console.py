"""What ``edgec runner build`` prints."""

from __future__ import annotations

import json

import typer

from edgec.devices.runner_build import build_runner


def build(as_json: bool) -> None:
    """Compile the engine and the runner unless that was done before, and print their paths.

    Raises:
        ToolError: E311, E312 or E301.
        InputError: E121 or E122.
    """
    made = build_runner(announce=lambda text: typer.echo(text, err=True))
    fields = {"library": str(made.library), "runner": str(made.runner), "compile_s": round(made.seconds, 1)}
    if as_json:
        typer.echo(json.dumps(fields))
        return
    typer.echo(f"library {made.library}")
    typer.echo(f"runner  {made.runner}")
    typer.echo(f"compiled in {made.seconds:.1f} s (measured)" if made.seconds else "compiled before")
