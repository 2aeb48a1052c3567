"""Generated apps with a pinned key as processes that are told what to load, and bundles that its holder signed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgec.bundle.folder import open_bundle, write_bundle
from edgec.bundle.manifest import Manifest
from edgec.bundle.signature import sign_bundle
from tests.bundle.signatures import write_keys

MEMORY = 1 << 40
Change = Callable[[Manifest], Manifest]


@dataclass(frozen=True)
class Said:
    """How an app ended what it was told to do: ``done`` or an error's name, a code of edgec, and why."""

    kind: str
    code: str
    why: str


class Phone:
    """The app in a process of its own, which no refusal ends."""

    def __init__(self, line: Sequence[str], seen: Callable[[Path], str]) -> None:
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seen = seen

    def load(self, folder: Path | str, always: bool = False, memory: int = MEMORY) -> Said:
        """Load a bundle; ``own``: the package's."""
        place = folder if isinstance(folder, str) else self.seen(folder)
        return self._ask("load", place, "always" if always else "once", str(memory))

    def get(self, url: str, folder: Path, digest: str = "own") -> Said:
        """Download a bundle."""
        return self._ask("get", url, self.seen(folder), digest)

    def _ask(self, *words: str) -> Said:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(*words, sep="\t", file=self.process.stdin, flush=True)
        kind, code, why = self.process.stdout.readline().rstrip("\n").split("\t", 2)
        return Said(kind, code, why)


@dataclass(frozen=True)
class Pinned:
    """An app with the key ``own``: the bundle that it was made with, and a newer one that fits it.

    ``line``: the command that runs it; ``seen``: a folder as it sees it.
    """

    own: Path
    newer: Path
    line: Sequence[str]
    seen: Callable[[Path], str] = str

    @contextmanager
    def running(self) -> Iterator[Phone]:
        """The app while the block runs."""
        phone = Phone(self.line, self.seen)
        try:
            yield phone
        finally:
            phone.process.kill()
            phone.process.communicate()


def signed_copy(
    bundle: Path,
    folder: Path,
    change: Change = lambda manifest: manifest,
    files: Mapping[str, bytes | None] | None = None,
    key: str = "own",
) -> Path:
    """A bundle with another manifest and files in ``folder``, signed; None leaves a file out."""
    manifest = open_bundle(bundle).manifest
    contents: dict[str, bytes | Path | None] = {file.path: bundle / file.path for file in manifest.files}
    contents |= files or {}
    kept = {name: content for name, content in contents.items() if content is not None}
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_bundle(folder, change(manifest.model_copy(update={"files": []})), kept)
    sign_bundle(folder, write_keys(folder.parent, key)[0])
    return folder


def newer_than(own: Path, folder: Path) -> Path:
    """A bundle with other weights, another recipe and a report."""
    files: dict[str, bytes | None] = {"model.pte": b"newer weights" * 100, "report.html": b"<!doctype html>" * 200}
    return signed_copy(own, folder, lambda m: m.model_copy(update={"recipe": {"name": "newer"}}), files)
