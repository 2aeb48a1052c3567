"""A generated downloader as a process that is told what to download, and the bundle in parts that it gets."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO

from edgec.bundle.folder import open_bundle, write_bundle
from edgec.bundle.split import split_bundle

PART_BYTES = 40_000


class App:
    """The downloader, in a process of its own."""

    def __init__(self, line: Sequence[str], seen: Callable[[Path], str]) -> None:
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seen = seen

    def start(self, url: str, folder: Path, digest: str = "own", stop: int | str = -1) -> None:
        """Begin a download; ``stop``: after so many bytes it is cancelled."""
        print(url, self.seen(folder), digest, stop, sep="\t", file=self._to, flush=True)

    def outcome(self) -> tuple[str, str]:
        """How the download ended: ``done`` or an error's name, and bytes or its message."""
        assert self.process.stdout is not None
        kind, _, what = self.process.stdout.readline().rstrip("\n").partition("\t")
        return kind, what

    def get(self, url: str, folder: Path, digest: str = "own", stop: int | str = -1) -> tuple[str, str]:
        """Download and wait."""
        self.start(url, folder, digest, stop)
        return self.outcome()

    @property
    def _to(self) -> IO[str]:
        assert self.process.stdin is not None
        return self.process.stdin


@dataclass(frozen=True)
class Made:
    """A bundle of about 300 KB, its parts, and the downloader of its package.

    ``line``: the command that runs the downloader; ``seen``: a folder as it sees it.
    """

    bundle: Path
    parts: Path
    line: Sequence[str]
    seen: Callable[[Path], str] = str

    @property
    def digest(self) -> str:
        """The manifest's."""
        return open_bundle(self.bundle).manifest.digest

    @contextmanager
    def running(self) -> Iterator[App]:
        """The downloader while the block runs."""
        app = App(self.line, self.seen)
        try:
            yield app
        finally:
            app.process.kill()
            app.process.communicate()


def in_parts(bundle: Path, folder: Path) -> tuple[Path, Path]:
    """A copy of a bundle with more to download (a large file, an empty one, a signature), and its parts."""
    manifest = open_bundle(bundle).manifest
    files: dict[str, bytes | Path] = {file.path: bundle / file.path for file in manifest.files}
    more = {"extra/empty": b"", "extra/large.bin": Random(1).randbytes(300_000)}
    write_bundle(folder / "large.edgec", manifest, {**files, **more})
    (folder / "large.edgec" / "model.sig").write_bytes(b"a signature")
    split_bundle(folder / "large.edgec", folder / "large.parts", PART_BYTES)
    return folder / "large.edgec", folder / "large.parts"


def assert_whole(made: Made, folder: Path) -> None:
    """Assert that a folder is the bundle, bit for bit, and that nothing lies beside it."""
    assert subprocess.run(["diff", "-r", made.bundle, folder], check=False, capture_output=True).returncode == 0
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
