"""``edgec embed`` writes a bundle as source code for an app."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import bundle_names


def embed(
    ctx: typer.Context,
    bundle: Annotated[
        Path, typer.Argument(autocompletion=bundle_names, help="The bundle folder, NAME.edgec, or hub:OWNER/NAME.")
    ],
    *,
    platform: Annotated[str, typer.Option(help="The app's system: ios or android.")],
    out: Annotated[Path | None, typer.Option(help="The package's path; default NAME-PLATFORM.")] = None,
    runtime: Annotated[
        str | None, typer.Option(help="What the app must execute it with: litert, executorch, onnxruntime, ...")
    ] = None,
    target_sdk: Annotated[int | None, typer.Option(help="Android's target SDK, 26 to 35; default 35.")] = None,
    public_key: Annotated[Path | None, typer.Option(help="PEM file: load other bundles signed by this key.")] = None,
    tools: Annotated[
        Path | None,
        typer.Option(help="JSON file of tools that the model may call in the app; the engine holds calls to them."),
    ] = None,
    phone_file: Annotated[
        Path | None, typer.Option("--phone", help="The phone's TOML file that `edgec export --phone` was given.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The written files as JSON on stdout.")] = False,
) -> None:
    """Write a Swift package or Gradle modules: model, typed wrapper, checks at load, settings, a bench app.

    The sources are parsed or compiled in edgec's own tests, but not yet linked on a Mac or in an Android build.

    Examples:
    edgec embed tiny-stories-iphone.edgec --platform ios

    edgec embed tiny-stories-android-cpu.edgec --platform android --out TinyLlamaKit --json

    edgec embed tiny-stories-android-litert.edgec --platform android --runtime litert

    edgec embed tiny-stories-iphone.edgec --platform ios --public-key signing-public.pem

    edgec embed Qwen3-0.6B-android-cpu.edgec --platform android --tools tools.json
    """
    from edgec.apps.embed.console import print_embedded
    from edgec.devices.phone_file import added_phone
    from edgec.exporter.apps import embed as write

    ctx.with_resource(added_phone(phone_file))
    made = write(bundle, platform, out, target_sdk=target_sdk, public_key=public_key, tools=tools, runtime=runtime)
    print_embedded(made, as_json=json)
