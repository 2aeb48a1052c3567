"""``edgec serve`` answers OpenAI's clients with bundles, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import bundle_names


def serve(
    bundles: Annotated[
        list[Path],
        typer.Argument(autocompletion=bundle_names, help="Bundles, NAME.edgec or hub:OWNER/NAME; requests name one."),
    ],
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is reached from here alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any free one.")] = 8080,
    api_key: Annotated[
        str | None, typer.Option(help="Requests must have it; default: EDGEC_API_KEY, else none.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; default: the cores that shorten a step.")] = None,
    max_body_mb: Annotated[int, typer.Option(min=1, help="The largest request, MiB.")] = 4,
    max_upload_mb: Annotated[int, typer.Option(min=1, help="The same where it may bring images or sounds, MiB.")] = 25,
    answer_seconds: Annotated[float, typer.Option(min=0.001, help="The longest computation of an answer.")] = 600.0,
    sessions: Annotated[int, typer.Option(min=1, help="Answers of a bundle that are written at once.")] = 4,
    memory_mb: Annotated[
        int | None, typer.Option(min=1, help="The most that the states of a bundle's sessions take, MiB.")
    ] = None,
    adapter: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE: an adapter that requests name BUNDLE:NAME; repeatable.")
    ] = None,
    public_key: Annotated[Path | None, typer.Option(help="PEM file: refuse bundles that its key did not sign.")] = None,
) -> None:
    """Serve bundles to clients of OpenAI's API: chats, tools, JSON Schema, images, vectors, transcripts, ranks.

    Answers of a bundle are written together: each call of the model computes the next tokens of all. See docs/serve.md.

    Examples:
    edgec serve tiny-stories-host.edgec

    edgec serve chat.edgec coder.edgec --port 9000 --api-key secret

    edgec serve tiny-stories-host.edgec --adapter pirate=pirate.adapter --adapter poet=poet.adapter
    """
    from dataclasses import replace

    from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
    from edgec.runtime_py.serve.server import ServeOptions
    from edgec.runtime_py.serve.server import serve as run

    memory = None if memory_mb is None else memory_mb << 20
    sizes = {"body_bytes": max_body_mb << 20, "upload_bytes": max_upload_mb << 20}
    limits = replace(DEFAULT_LIMITS, **sizes, answer_seconds=answer_seconds)
    limits = replace(limits, sessions=sessions, memory_bytes=memory)
    options = ServeOptions(tuple(bundles), host, port, api_key, threads, limits, tuple(adapter or ()), public_key)
    run(
        options,
        lambda address: typer.echo(f"Serving at {address} (Ctrl-C stops)"),
        lambda text: typer.echo(text, err=True),
    )
