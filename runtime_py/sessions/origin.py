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
    """

    format: str
    model: str
    recipe: str
    tokenizer: str
    layout: str

    def differences(self, other: Mapping[str, object]) -> list[str]:
        """The names of the parts that differ from ``other``; of another format only the format."""
        unlike = [name for name, value in asdict(self).items() if other[name] != value]
        return ["format"] if "format" in unlike else unlike

    def fingerprint(self, tokens: Sequence[int]) -> str:
        """The sha256 over all parts and the token ids."""
        ids = hashlib.sha256(np.asarray(tokens, dtype="<i8").tobytes()).hexdigest()
        return _digest({**asdict(self), "tokens": ids})


def origin(
    artifact_sha256: str, recipe: Mapping[str, Any], tokenizer: Mapping[str, str], states: Sequence[StateInfo]
) -> Origin:
    """Make an origin from its parts.

    Args:
        artifact_sha256: sha256 of the artifact's bytes, hex.
        recipe: the recipe as plain data.
        tokenizer: sha256 (hex) of each file of the tokenizer, by its path inside the bundle.
        states: the artifact's states.
    """
    return Origin(
        format=FORMAT,
        model=artifact_sha256,
        recipe=_digest(recipe),
        tokenizer=_digest(tokenizer),
        layout=_digest([state.model_dump(mode="json") for state in states]),
    )


def origin_of(manifest: Manifest) -> Origin:
    """The origin of every state that a bundle's model computes."""
    files = {file.path: file.sha256 for file in manifest.files}
    tokenizer = {path: sha256 for path, sha256 in files.items() if path.startswith("tokenizer/")}
    inside = {path: sha256 for path, sha256 in files.items() if path.startswith(f"{manifest.artifact}/")}
    artifact = files[manifest.artifact] if manifest.artifact in files else _digest(inside)
    return origin(artifact, manifest.recipe, tokenizer, manifest.states)


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
