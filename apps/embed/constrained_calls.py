"""The structures that an app holds calls of tools to: files of its package, beside the bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from edgec.bundle.folder import Bundle
from edgec.bundle.tools import Tool

FOLDER: Final = "calls"
VOCABULARY: Final = "vocabulary.bin"


@dataclass(frozen=True)
class ConstrainedCalls:
    """Structures of messages for a bundle's vocabulary.

    Attributes:
        files: their contents by name: ``vocabulary.bin`` (`bundle/schemas.py`) and grammars
            (`exporter/schemas/pushdown.py`).
        choices: the grammar's file by what the app asks for: ``auto``, ``required`` or ``tool NAME``, and the same with
            ``once `` before it where a message has one call at most.
    """

    files: Mapping[str, bytes]
    choices: Mapping[str, str]

    @property
    def digests(self) -> Mapping[str, str]:
        """The sha256 of each file by its name."""
        return {name: sha256(content).hexdigest() for name, content in self.files.items()}


HoldCalls = Callable[[Bundle, Sequence[Tool]], ConstrainedCalls]
"""Compiles the structures for tools of a bundle whose chat template takes them."""
