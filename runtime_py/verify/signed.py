"""The signature's line of ``edgec verify``: checked with a public key, or said not to be."""

from __future__ import annotations

from pathlib import Path

from edgec.bundle.folder import SIGNATURE
from edgec.bundle.signature import check_signature
from edgec.bundle.signature_file import is_signed
from edgec.bundle.signing_keys import read_public_key
from edgec.runtime_py.verify.report import BundleCheck


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
