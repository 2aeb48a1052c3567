"""``edgec verify`` checks a bundle's checksums, schema and golden vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import bundle_names


def verify(
    bundle: Annotated[
        Path, typer.Argument(autocompletion=bundle_names, help="The bundle folder, NAME.edgec, or hub:OWNER/NAME.")
    ],
    *,
    public_key: Annotated[Path | None, typer.Option(help="PEM file: check the signature of edgec sign.")] = None,
    device: Annotated[str, typer.Option(help="host, or qemu: the phone's arm64 runner, emulated.")] = "host",
    threads: Annotated[int | None, typer.Option(help="CPU threads; default: the cores that shorten a step.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Check a bundle and execute it against its golden vectors.

    Exit code 1: a file or the manifest differs from the export, or from what was signed. Exit code 2: a golden vector
    differs. The signature is checked only where a public key is given.

    Examples:
    edgec verify tiny-stories-host.edgec

    edgec verify tiny-stories-host.edgec --public-key signing-public.pem

    edgec verify tiny-stories-android-cpu.edgec --device qemu

    edgec verify tiny-stories-host.edgec --json
    """
    from edgec.runtime_py.verify.report import print_verification
    from edgec.runtime_py.verify.verify import verify as verify_bundle

    report = verify_bundle(bundle, threads, device, public_key)
    print_verification(report, as_json=json)
    if not report.passed:
        raise typer.Exit(2)
