"""Elliptic-curve keys in PEM files: what signs a bundle and what checks its signature, refused before anything is done.

The libraries are imported when they are needed: they are an extra, ``edgec[sign]``.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgec.bundle.limited_json import limited_bytes
from edgec.errors import InputError, ToolError
from edgec.installation import install_command

PASSWORD_VARIABLE = "EDGEC_KEY_PASSWORD"
_MAX_BYTES = 64 << 10
_LABEL = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----")
_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
_MAKE = "make one with: openssl ecparam -name prime256v1 -genkey -noout -out signing-key.pem"
_DERIVE = "make it with: openssl ec -in signing-key.pem -pubout -out signing-public.pem"


@dataclass(frozen=True)
class PublicKey:
    """A key that checks signatures, as the text that ``openssl ec -pubout`` writes."""

    pem: bytes

    @property
    def fingerprint(self) -> str:
        """The sha256 of that text: what a signature names its key by, and what ``sha256sum`` prints of the file."""
        return hashlib.sha256(self.pem).hexdigest()

    @property
    def der(self) -> bytes:
        """The same key as the bytes inside the text, X.509's SubjectPublicKeyInfo."""
        return b64decode(b"".join(line for line in self.pem.splitlines() if not line.startswith(b"-----")))

    @property
    def curve(self) -> str:
        """P-256, P-384 or P-521."""
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        key = load_pem_public_key(self.pem)
        assert isinstance(key, EllipticCurvePublicKey)  # no other key becomes a PublicKey
        return _CURVES[key.curve.name]


@dataclass(frozen=True)
class PrivateKey:
    """A key that was read and can sign; the library reads it again from ``path``."""

    path: Path
    password: bytes | None = field(repr=False)
    public: PublicKey


def require_library() -> None:
    """Refuse to go on without the library.

    Raises:
        ToolError: E600.
    """
    try:
        import model_signing  # noqa: F401
    except ImportError as cause:
        what, fix = "Signatures need model-signing, which is not installed.", install_command("sign")
        raise ToolError(what, "model-signing", str(cause), fix, "E600") from cause


def read_public_key(path: Path) -> PublicKey:
    """Read the key that a signature is checked with.

    Raises:
        InputError: E605, the file is not a public key on a curve that the format knows.
        ToolError: E600, the library is not installed.
    """
    require_library()
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    refused = _refusal("The public key cannot be used.", path, _DERIVE)
    raw, labels = _pem(path, refused)
    if any(label.endswith("PRIVATE KEY") for label in labels):
        raise refused("it holds a private key, which is to stay with whoever signs")
    if "PUBLIC KEY" not in labels:
        raise refused(f"it holds {_article(labels[0])}, not a public key")
    return _public(_loaded(lambda: load_pem_public_key(raw), refused), refused)


def read_private_key(path: Path, password: str | None = None) -> PrivateKey:
    """Read the key that signs.

    Args:
        path: a PEM file.
        password: of an encrypted key; an empty one is none.

    Raises:
        InputError: E605, the file is not a private key on a curve that the format knows; E606, its password.
        ToolError: E600, the library is not installed.
    """
    require_library()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    refused = _refusal("The private key cannot be used.", path, _MAKE)
    raw, labels = _pem(path, refused)
    if not any(label.endswith("PRIVATE KEY") for label in labels):
        raise refused(f"it holds {_article(labels[0])}, not a private key")
    secret = password.encode(errors="surrogateescape") if password else None
    encrypted = b"ENCRYPTED" in raw
    if encrypted != (secret is not None):
        raise _wrong_password(path, "the key is encrypted" if encrypted else "the key is not encrypted", encrypted)
    failed = (lambda why: _wrong_password(path, why, True)) if encrypted else refused
    key = _loaded(lambda: load_pem_private_key(raw, secret), failed)
    return PrivateKey(path, secret, _public(key.public_key(), refused))


def _refusal(what: str, path: Path, fix: str) -> Callable[[str], InputError]:
    return lambda why: InputError(what, str(path), why[:200], fix, "E605")


def _wrong_password(path: Path, why: str, encrypted: bool) -> InputError:
    fix = f"give its password in {PASSWORD_VARIABLE}" if encrypted else f"unset {PASSWORD_VARIABLE}"
    return InputError("The private key's password is missing or wrong.", str(path), why[:200], fix, "E606")


def _pem(path: Path, refused: Callable[[str], InputError]) -> tuple[bytes, list[str]]:
    """The bytes of a key file and the labels of its PEM blocks."""
    try:
        raw = limited_bytes(path, _MAX_BYTES)
    except (OSError, ValueError) as error:
        raise refused(getattr(error, "strerror", None) or str(error)) from error
    labels = [label.decode() for label in _LABEL.findall(raw)]
    if not labels:
        raise refused("it is not a PEM file")
    return raw, labels


def _article(label: str) -> str:
    return f"{'an' if label[0] in 'AEIOU' else 'a'} {label.lower()}"


def _loaded(load: Callable[[], Any], refused: Callable[[str], InputError]) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise refused(str(error)) from error


def _public(key: Any, refused: Callable[[str], InputError]) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    if not isinstance(key, EllipticCurvePublicKey):
        raise refused("it is not an elliptic-curve key")
    if key.curve.name not in _CURVES:
        raise refused(f"its curve is {key.curve.name}; the format knows {', '.join(_CURVES.values())}")
    return PublicKey(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
