"""What a Core ML package says of itself: author, licence, version, what it is, and what each value is; Xcode shows it.

Texts that come from a model's files are bounded and of one line: whoever made the model wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final

from edgec.backends.coreml.interpreter.proto import SPEC_FILE, WEIGHT_FOLDER, read_spec

_MOST: Final = 300
_WEIGHTS: Final = "edgec_weights_sha256"
# The first pattern that fits a whole name says what a value is.
_VALUES: Final[tuple[tuple[str, str], ...]] = (
    ("tokens", "Token ids of the call; those after the last one that counts are padding."),
    ("start", "Position of the first token."),
    ("last", "Row whose logits are wanted."),
    ("inputIds", "Token ids of the call: the whole prompt, then one token at a time."),
    ("causalMask", "As long as the text so far and one more, by which positions are counted; its values are not read."),
    ("logits", "Scores of each token of the vocabulary."),
    (r"logits_\d+", "Scores of a piece of the vocabulary; all pieces side by side are the logits."),
    ("keyCache", "Keys of all layers: [layers, 1, heads, positions, width]."),
    ("valueCache", "Values of all layers: [layers, 1, heads, positions, width]."),
    (r"key_cache_\d+", "Keys of a layer: [1, heads, positions, width]."),
    (r"value_cache_\d+", "Values of a layer: [1, heads, positions, width]."),
    (r"new_(key|value)_cache_\d+", "Rows for the slots of the cache that follow start."),
    (r"(next_)?conv_state_\d+", "What a convolution remembers of earlier tokens."),
    (r"(next_)?recurrent_state_\d+", "What a recurrence remembers of earlier tokens."),
    (r"cross_(key|value)_\d+", "What a layer attends to of the encoder's source."),
    ("features", "Rows that take the place of tokens where embeds_mask is 1."),
    ("embeds_mask", "1 where a row of features takes the place of a token."),
    ("hidden", "What the package before this one gave as next_hidden."),
    ("next_hidden", "What the next package takes as hidden."),
)


@dataclass(frozen=True)
class PackageCard:
    """What is known of a package's contents.

    Attributes:
        author: who made the model.
        licence: of the model.
        version: of the model.
        description: what it is.
        details: further facts by key.
    """

    author: str
    licence: str
    version: str
    description: str
    details: Mapping[str, str]


def describe_package(package: Path, card: PackageCard) -> None:
    """Write what is known into a package; its weights' sha256, which a bundle's manifest lists, is among it."""
    spec = read_spec(package)
    about = spec.description.metadata
    about.author, about.license = bounded(card.author), bounded(card.licence)
    about.versionString, about.shortDescription = bounded(card.version), bounded(card.description)
    for key, value in {**card.details, _WEIGHTS: _weights_digest(package)}.items():
        about.userDefined[key] = bounded(value)
    for function in (spec.description, *spec.description.functions):
        for value in (*function.input, *function.output, *function.state):
            value.shortDescription = value_text(value)
    (package / SPEC_FILE).write_bytes(spec.SerializeToString(deterministic=True))


def bounded(text: str) -> str:
    """A text of somebody else's in one line of at most 300 characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * _MOST]).split())
    return line if len(line) <= _MOST else line[: _MOST - 3] + "..."


def value_text(value: Any) -> str:
    """What an input, output or state is; of a network that is not edgec's, its shape."""
    for pattern, text in _VALUES:
        if re.fullmatch(pattern, value.name):
            return text
    array = value.type.multiArrayType
    return f"{array.ArrayDataType.Name(array.dataType).lower()} [{', '.join(map(str, array.shape))}]"


def _weights_digest(package: Path) -> str:
    """The sha256 of the package's file of weights; empty where it has none."""
    files = sorted((package / WEIGHT_FOLDER).glob("*.bin"))
    if not files:
        return ""
    with files[0].open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
