"""Keys for the tests of signatures, and signatures that the library would not make."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from edgec.bundle.folder import SIGNATURE

Fields = dict[str, Any]
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_MAKERS: dict[str, Callable[[], Any]] = {
    "own": lambda: ec.generate_private_key(ec.SECP256R1()),
    "foreign": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
    "brainpool": lambda: ec.generate_private_key(ec.BrainpoolP256R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "DSA": lambda: dsa.generate_private_key(1024),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


@cache
def key(name: str) -> Any:
    """A private key by name; the same one all through a test run."""
    return _MAKERS[name]()


def private_pem(name: str, password: str = "", form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    """A private key's PEM text."""
    protection = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return bytes(key(name).private_bytes(Encoding.PEM, form, protection))


def public_pem(name: str) -> bytes:
    """A public key's PEM text."""
    return bytes(key(name).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def write_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """A private and a public key as files."""
    private, public = folder / f"{name}-key.pem", folder / f"{name}-public.pem"
    private.write_bytes(private_pem(name))
    public.write_bytes(public_pem(name))
    return private, public


def signature_fields(bundle: Path) -> Fields:
    """A bundle's signature as JSON."""
    fields: Fields = json.loads((bundle / SIGNATURE).read_text())
    return fields


def statement(bundle: Path) -> Fields:
    """What a bundle's signature signs, as JSON."""
    fields: Fields = json.loads(b64decode(signature_fields(bundle)["dsseEnvelope"]["payload"]))
    return fields


def put_payload(bundle: Path, payload: bytes, signer: str | None = "own") -> None:
    """Replace what is signed, and sign it; ``signer`` None: the old signature stays."""
    fields = signature_fields(bundle)
    envelope = fields["dsseEnvelope"]
    envelope["payload"] = b64encode(payload).decode()
    if signer is not None:
        encoded = f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(payload)} ".encode() + payload
        envelope["signatures"][0]["sig"] = b64encode(key(signer).sign(encoded, ec.ECDSA(hashes.SHA256()))).decode()
    (bundle / SIGNATURE).write_text(json.dumps(fields))


def restate(change: Callable[[Fields], object], signer: str | None = "own") -> Callable[[Path, Path], None]:
    """A change of what is signed, by default signed again with the right key."""

    def changed(bundle: Path, outside: Path) -> None:
        fields = statement(bundle)
        change(fields)
        put_payload(bundle, json.dumps(fields).encode(), signer)

    return changed


def rewrite(change: Callable[[Fields], object]) -> Callable[[Path, Path], None]:
    """A change of the signature's file around what is signed."""

    def changed(bundle: Path, outside: Path) -> None:
        fields = signature_fields(bundle)
        change(fields)
        (bundle / SIGNATURE).write_text(json.dumps(fields))

    return changed
