"""``edgec sign``: sign a bundle and print what was signed; the check of a signature for ``edgec verify``."""

from __future__ import annotations

import json
import os
from pathlib import Path

from edgec.bundle.folder import SIGNATURE
from edgec.bundle.signature import check_signature, sign_bundle
from edgec.bundle.signature_file import is_signed
from edgec.bundle.signing_keys import PASSWORD_VARIABLE, read_public_key
from edgec.runtime_py.verify.report import BundleCheck


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


def signature_check(bundle: Path, public_key: Path | None) -> BundleCheck:
    """Check a bundle's signature; without a key, only say whether there is one.

    Raises:
        InputError: E130 or E601 to E605, as `check_signature` and `read_public_key`.
        ToolError: E600.
    """
    if public_key is not None:
        signed = check_signature(bundle, read_public_key(public_key))
        detail = f"{len(signed.files)} files, the manifest among them, as signed by the key {signed.key[:16]}…"
        return BundleCheck("signature", "passed", detail)
    if is_signed(bundle):
        return BundleCheck("signature", "unavailable", f"there is one ({SIGNATURE}), NOT CHECKED: give --public-key")
    return BundleCheck("signature", "unavailable", "the bundle is not signed")
