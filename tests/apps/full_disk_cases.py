"""What a downloader does on disks that are too small or fill on the way, whatever language it is written in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgec.bundle.parts_list import PARTS_LIST
from tests.apps import parts_server as server
from tests.apps.download_apps import PART_BYTES, App, Made, assert_whole
from tests.apps.parts_server import PartsServer
from tests.small_disk import mounted


class FullDiskCases:
    """Over the fixtures ``made``, ``parts`` (its server) and ``place`` (an empty folder)."""

    @pytest.fixture
    def small_disk(self, place: Path) -> Iterator[Path]:
        """A file system of 1 MiB."""
        with mounted(place / "disk", "1m") as disk:
            yield disk

    @pytest.fixture
    def app(self, made: Made, small_disk: Path) -> Iterator[App]:
        """A downloader of its own: one in a mount namespace sees only the disks that were there when it began."""
        with made.running() as started:
            yield started

    def test_a_disk_that_is_too_small_is_refused_first(self, app: App, parts: PartsServer, small_disk: Path) -> None:
        (small_disk / "other").write_bytes(bytes(800_000))
        assert app.get(parts.url, small_disk / "b")[0] == "NotEnoughSpace"
        assert [name for name, _ in parts.asked] == [PARTS_LIST]

    def test_a_disk_that_fills_on_the_way(self, made: Made, app: App, parts: PartsServer, small_disk: Path) -> None:
        def fill(answer: server.Answer) -> None:
            with open(small_disk / "other", "wb", buffering=0) as other:
                while shutil.disk_usage(small_disk).free > 8192:
                    other.write(bytes(4096))
            answer.give(answer.whole)

        parts.faults = lambda name, number: fill if name == "part-00003" else None
        assert app.get(parts.url, small_disk / "b")[0] == "StorageFailed"
        (small_disk / "other").unlink()
        parts.faults = lambda name, number: None
        parts.asked.clear()
        assert app.get(parts.url, small_disk / "b")[0] == "done"
        assert "part-00002" not in [name for name, _ in parts.asked]
        assert_whole(made, small_disk / "b")

    def test_the_disk_needs_the_bundle_and_one_part(
        self, made: Made, app: App, parts: PartsServer, small_disk: Path
    ) -> None:
        sizes = [path.stat().st_size for path in made.bundle.rglob("*") if path.is_file()]
        pages = sum(-(-size // 4096) * 4096 for size in sizes)
        spare = pages + PART_BYTES + 8 * 4096
        (small_disk / "other").write_bytes(bytes(shutil.disk_usage(small_disk).free - spare))
        assert app.get(parts.url, small_disk / "b")[0] == "done"
        (small_disk / "other").unlink()
        assert_whole(made, small_disk / "b")
