"""``edgec sign`` signs a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import bundle_names


def sign(
    bundle: Annotated[Path, typer.Argument(autocompletion=bundle_names, help="The bundle folder, NAME.edgec.")],
    *,
    key: Annotated[Path, typer.Option(help="PEM file: a private key on the curve P-256, P-384 or P-521.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the bundle's signature.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Check a bundle and sign all its files: model.sig in it, in the OpenSSF model-signing format.

    openssl makes the keys: see edgec help signing. The password of an encrypted key is read from EDGEC_KEY_PASSWORD.

    Examples:
    edgec sign tiny-stories-host.edgec --key signing-key.pem

    EDGEC_KEY_PASSWORD=... edgec sign tiny-stories-host.edgec --key signing-key.pem --force --json

    edgec verify tiny-stories-host.edgec --public-key signing-public.pem
    """
    from edgec.runtime_py.verify.signing import sign_and_print

    sign_and_print(bundle, key, force, as_json=json)
