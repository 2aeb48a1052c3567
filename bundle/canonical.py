"""The canonical text of a manifest, and the digests that are taken of it.

One JSON text: sorted keys, two spaces of indentation, UTF-8, a final newline. The ``digest`` in it is the sha256 of
that same text with ``digest`` left empty, so any language can check it with a text replacement.
"""

from __future__ import annotations

import hashlib
import json

from edgec.bundle.manifest import Manifest

REPORT = "report.html"


def canonical_json(manifest: Manifest) -> bytes:
    """A manifest's canonical text, as the bytes of its file: the only ones that are accepted."""
    return canonical_text(manifest).encode()


def canonical_text(manifest: Manifest) -> str:
    """A manifest's canonical text."""
    fields = manifest.model_dump(mode="json")
    return json.dumps(fields, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def manifest_sha256(manifest: Manifest) -> str:
    """The sha256 of the file that holds a sealed manifest."""
    return hashlib.sha256(canonical_json(manifest)).hexdigest()


def manifest_digest(manifest: Manifest) -> str:
    """The sha256 of the canonical JSON with an empty ``digest``."""
    return manifest_sha256(manifest.model_copy(update={"digest": ""}))


def text_digest(text: bytes, digest: str) -> str:
    """What ``digest`` must be for a manifest with this canonical text, which is not written a second time."""
    filled, empty = (f'\n  "digest": "{value}"'.encode() for value in (digest, ""))
    return hashlib.sha256(text.replace(filled, empty, 1)).hexdigest()


def seal(manifest: Manifest) -> Manifest:
    """A copy of a manifest with its digest filled in."""
    return manifest.model_copy(update={"digest": manifest_digest(manifest)})


def identity_digest(manifest: Manifest) -> str:
    """The sha256 over what two exports of the same input must share: no ``build``, no ``digest``, no report."""
    fields = manifest.model_dump(mode="json", exclude={"build", "digest"})
    fields["files"] = [file for file in fields["files"] if file["path"] != REPORT]
    return hashlib.sha256(json.dumps(fields, sort_keys=True, allow_nan=False).encode()).hexdigest()
