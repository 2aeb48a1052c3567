"""The origin of a KV state: all that it depends on. Restored under anything else it would silently be wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgec.bundle.entry_points import StateInfo
from edgec.bundle.manifest import Manifest

FORMAT = "edgec-session-1"


@dataclass(frozen=True)
class Origin:
    """Digests (sha256, hex) of everything that a state depends on.

    Attributes:
        format: the file's format.
        model: the artifact.
        recipe: the recipe in the manifest.
        tokenizer: names and contents of the tokenizer's files.
        layout: names, shapes, dtypes and places of the states.
        adapter: the adapter's digest; empty without one, and then no part of a file, as before there were adapters.
    """

    format: str
    model: str
    recipe: str
    tokenizer: str
    layout: str
    adapter: str = ""

    @property
    def parts(self) -> dict[str, str]:
        """All parts by name; the adapter only where there is one."""
        return {name: value for name, value in asdict(self).items() if value or name != "adapter"}

    def differences(self, other: Mapping[str, object]) -> list[str]:
        """The names of the parts that differ from ``other``; of another format only the format."""
        unlike = [name for name, value in asdict(self).items() if other.get(name, "") != value]
        return ["format"] if "format" in unlike else unlike

    def fingerprint(self, tokens: Sequence[int]) -> str:
        """The sha256 over all parts and the token ids."""
        ids = hashlib.sha256(np.asarray(tokens, dtype="<i8").tobytes()).hexdigest()
        return _digest({**self.parts, "tokens": ids})


def origin(
    artifact_sha256: str,
    recipe: Mapping[str, Any],
    tokenizer: Mapping[str, str],
    states: Sequence[StateInfo],
    adapter: str = "",
) -> Origin:
    """Make an origin from its parts.

    Args:
        artifact_sha256: sha256 of the artifact's bytes, hex.
        recipe: the recipe as plain data.
        tokenizer: sha256 (hex) of each file of the tokenizer, by its path inside the bundle.
        states: the artifact's states.
        adapter: the digest of the adapter that computes them; empty for none.
    """
    return Origin(
        format=FORMAT,
        model=artifact_sha256,
        recipe=_digest(recipe),
        tokenizer=_digest(tokenizer),
        layout=_digest([state.model_dump(mode="json") for state in states]),
        adapter=adapter,
    )


def origin_of(manifest: Manifest, adapter: str = "") -> Origin:
    """The origin of every state that a bundle's model computes, under the adapter of this digest."""
    files = {file.path: file.sha256 for file in manifest.files}
    tokenizer = {path: sha256 for path, sha256 in files.items() if path.startswith("tokenizer/")}
    inside = {path: sha256 for path, sha256 in files.items() if path.startswith(f"{manifest.artifact}/")}
    artifact = files[manifest.artifact] if manifest.artifact in files else _digest(inside)
    return origin(artifact, manifest.recipe, tokenizer, manifest.states, adapter)


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
