"""The output of ``edgec runner build``: the paths of the engine and the runner."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from edgec.engine.compile.abi import NATIVE, abi_named
from edgec.engine.compile.build import build_runner
from edgec.terminal import counted_bar


def build(abi: str, wheel: Path | None, as_json: bool) -> None:
    """Compile the engine and the runner on first use, and print their paths.

    Raises:
        ToolError: E311, E312, E301 or E571.
        InputError: E121, E122 or E570.
    """
    chosen = abi_named(abi)
    with counted_bar(f"compiling the engine for {'this CPU' if chosen is NATIVE else chosen.name} (once)") as show:
        made = build_runner(abi=chosen, wheel=wheel, compiled=show)
    fields = {"library": str(made.library), "runner": str(made.runner), "compile_s": round(made.seconds, 1)}
    travelling = made.files if made.abi.travels else ()
    if travelling:
        fields["device_bytes"] = sum(path.stat().st_size for path in travelling)
    if as_json:
        typer.echo(json.dumps(fields))
        return
    typer.echo(f"library {made.library}")
    typer.echo(f"runner  {made.runner}")
    if travelling:
        typer.echo(f"device  {len(travelling)} files, {fields['device_bytes']:,} bytes: everything that a phone needs")
    typer.echo(f"compiled in {made.seconds:.1f} s (measured)" if made.seconds else "compiled before")
