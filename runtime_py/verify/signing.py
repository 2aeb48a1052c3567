"""``edgec sign``: a bundle is signed, and what was signed is printed."""

from __future__ import annotations

import json
import os
from pathlib import Path

from edgec.bundle.folder import SIGNATURE
from edgec.bundle.signature import sign_bundle
from edgec.bundle.signing_keys import PASSWORD_VARIABLE


def sign_and_print(bundle: Path, key: Path, force: bool, as_json: bool) -> None:
    """Sign a bundle and print what its signature covers.

    Raises:
        InputError: as `sign_bundle`; nothing was written.
        ToolError: E600.
    """
    signed = sign_bundle(bundle, key, os.environ.get(PASSWORD_VARIABLE), force)
    if as_json:
        facts = {"bundle": str(bundle), "signature": SIGNATURE, "files": len(signed.files), "key_sha256": signed.key}
        print(json.dumps(facts))
        return
    print(f"signed {len(signed.files)} files, the manifest among them: {bundle / SIGNATURE}")
    print(f"by the key with the public sha256 {signed.key}")
