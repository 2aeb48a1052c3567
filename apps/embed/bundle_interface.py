"""What a bundle has in common with every other one that the same app can load: the sha256 of parts of its manifest.

The app takes the same sums of another bundle's manifest. They are taken of lines of the canonical text, so that no
language needs a JSON parser that writes as Python does: a field begins where a line has its indentation and a quote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from edgec.bundle.canonical import canonical_text
from edgec.bundle.manifest import Manifest

NAMES = (
    *("schema_version", "format", "artifact", "target", "methods", "states", "limits"),
    *("encoder_decoder", "vision_language", "audio_language", "sentence_encoder"),
    *("model.vocab_size", "prefix.form", "prefix.text"),
    *("runtime.name", "runtime.version", "runtime.backends", "tools.onnxruntime-qnn"),
)
"""Fields of the manifest, by their path, that the generated code and the libraries that it links were chosen for."""
# Where a state lies in the program's memory is the program's own affair.
_LEFT_OUT = '"offset":'


def interface(manifest: Manifest) -> Mapping[str, str]:
    """The sha256 of each field of ``NAMES``; empty where there is none."""
    lines = canonical_text(manifest).split("\n")
    found = {name: value for name, value in _fields(lines, "  ").items() if name in NAMES}
    parents = {name.partition(".")[0] for name in NAMES if "." in name}
    for parent in sorted(parents):
        inside = _fields(_fields(lines, "  ").get(parent, []), "    ")
        found |= {f"{parent}.{name}": value for name, value in inside.items()}
    return {name: _sum(found[name]) if name in found else "" for name in NAMES}


def _fields(lines: Iterable[str], indent: str) -> dict[str, list[str]]:
    """The lines of each field of an object whose fields are indented so."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        text = line
        if line.startswith(f'{indent}"'):
            name, _, text = line.strip().removeprefix('"').partition('": ')
            found[name] = []
        elif not line.startswith(indent):
            name = ""
        if name and not text.strip().startswith(_LEFT_OUT):
            found[name].append(text)
    return found


def _sum(lines: Iterable[str]) -> str:
    """The sum of a field's text without the comma after it."""
    return sha256("\n".join(lines).removesuffix(",").encode()).hexdigest()
