"""The app projects as they lie in the repository, and their files under the names of a model's own package."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

_ROOT = Path(str(files("edgec.apps")))
SWIFT, ANDROID = _ROOT / "swift", _ROOT / "android"
MODULE = "SampleKit"
"""The name of the Swift module in the repository, which a package replaces by its model's."""
PACKAGE = "dev.edgec.sample"
"""The Kotlin package in the repository, likewise."""
_SOURCES = (".swift", ".kt")


@dataclass(frozen=True)
class Project:
    """A project whose files are copied under other names.

    Attributes:
        root: its folder in the repository.
        banner: the comment that begins every copied source.
        names: a word of the sample -> that of the model.
    """

    root: Path
    banner: str
    names: Mapping[str, str]

    def named(self, text: str) -> str:
        """A text with the model's names in the place of the sample's, in one pass."""
        words = sorted(self.names, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, words)), lambda match: self.names[match[0]], text)

    def copied(self, path: str) -> bytes:
        """A file with the model's names."""
        text = self.named((self.root / path).read_text(encoding="utf-8"))
        return (self.banner + text if path.endswith(_SOURCES) else text).encode()

    def files(self, folders: Iterable[str]) -> Iterator[str]:
        """The paths of the files in these folders, in the order of the folders."""
        for folder in folders:
            paths = (path for path in (self.root / folder).rglob("*") if path.is_file())
            yield from sorted(path.relative_to(self.root).as_posix() for path in paths)
