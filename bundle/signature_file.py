"""The file ``model.sig`` of a bundle, read under limits: a Sigstore bundle around the names and hashes of all files.

The format is OpenSSF's model-signing 1.0 with whole files and sha256; whether what it says is true, others check.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from edgec.bundle.checked_files import path_fault
from edgec.bundle.folder import SIGNATURE
from edgec.bundle.limited_json import JsonKind, first_fault, limited_bytes, parse_json
from edgec.bundle.part import Sha256
from edgec.errors import InputError

SIGNATURE_KIND = JsonKind(
    "The signature cannot be used.", "get the bundle again, or sign it again with edgec sign", "E602"
)


def _decoded(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError("it is not text")
    return b64decode(text, validate=True)


_Base64 = Annotated[bytes, BeforeValidator(_decoded)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _KeyName(_Part):
    hint: Sha256


class _Material(_Part):
    public_key: _KeyName = Field(alias="publicKey")


class _SignatureBytes(_Part):
    sig: _Base64


class _Envelope(_Part):
    payload: _Base64
    payload_type: Literal["application/vnd.in-toto+json"] = Field(alias="payloadType")
    signatures: list[_SignatureBytes] = Field(min_length=1, max_length=1)


class _SignatureFile(_Part):
    media_type: Literal["application/vnd.dev.sigstore.bundle.v0.3+json"] = Field(alias="mediaType")
    material: _Material = Field(alias="verificationMaterial")
    envelope: _Envelope = Field(alias="dsseEnvelope")

    def plain_text(self) -> str:
        """The file with these fields alone: the library gets nothing that was not checked."""
        envelope = {
            "payload": b64encode(self.envelope.payload).decode(),
            "payloadType": self.envelope.payload_type,
            "signatures": [{"sig": b64encode(self.envelope.signatures[0].sig).decode(), "keyid": ""}],
        }
        material = {"publicKey": {"hint": self.material.public_key.hint}, "tlogEntries": []}
        return json.dumps({"mediaType": self.media_type, "verificationMaterial": material, "dsseEnvelope": envelope})


class _Serialization(_Part):
    method: Literal["files"]
    hash_type: Literal["sha256"]


class _Resource(_Part):
    name: str
    algorithm: Literal["sha256"]
    digest: Sha256


class _Predicate(_Part):
    serialization: _Serialization
    resources: list[_Resource]


class _Statement(_Part):
    kind: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    predicate_type: Literal["https://model_signing/signature/v1.0"] = Field(alias="predicateType")
    predicate: _Predicate


@dataclass(frozen=True)
class Signature:
    """What a signature says.

    Attributes:
        key: sha256 of the public key that it names, hex.
        files: the sha256 of every file that it covers, by path.
        plain: its text, reduced to what was checked.
    """

    key: str
    files: Mapping[str, str]
    plain: str


def is_signed(folder: Path) -> bool:
    """Whether a bundle has a signature; it may be by anybody, or none at all inside."""
    return os.path.lexists(folder / SIGNATURE)


def read_signature(folder: Path) -> Signature:
    """Read a bundle's signature under limits; nothing of what it says is checked.

    Raises:
        InputError: E601, there is none; E602, it is not a signature that edgec reads.
    """
    path = folder / SIGNATURE
    if not os.path.lexists(path):
        fix = "get the signed bundle again, or sign this one with edgec sign"
        raise InputError("The bundle has no signature.", str(folder), f"there is no {SIGNATURE} in it", fix, "E601")
    try:
        return _parsed(limited_bytes(path, SIGNATURE_KIND.max_bytes, follow=False))
    except ValidationError as error:
        raise SIGNATURE_KIND.refusal(path, first_fault(error)) from error
    except (OSError, ValueError) as error:
        raise SIGNATURE_KIND.refusal(path, str(error)) from error


def _parsed(raw: bytes) -> Signature:
    file = _SignatureFile.model_validate(parse_json(raw))
    resources = _Statement.model_validate(parse_json(file.envelope.payload)).predicate.resources
    files = {resource.name: resource.digest for resource in resources}
    if len(files) != len(resources):
        raise ValueError("it names a file twice")
    for name in files:
        if fault := path_fault(name):
            raise ValueError(f"{name[:80]!r}: {fault}")
    return Signature(file.material.public_key.hint, files, file.plain_text())
