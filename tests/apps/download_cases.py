"""What a downloader must survive, and what it must refuse, whatever language it is written in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pytest

from edgec.bundle.parts_list import PARTS_LIST
from edgec.bundle.split import split_bundle
from tests.apps import parts_server as server
from tests.apps.download_apps import PART_BYTES, App, Made, assert_whole
from tests.apps.parts_server import Fault, PartsServer, serving
from tests.bundle.test_parts import BAD, GOOD


class DownloadCases:
    """Over the fixtures ``made``, ``app`` (the downloader), ``parts`` (its server) and ``place`` (an empty folder)."""

    def test_a_bundle_arrives_whole(self, made: Made, app: App, parts: PartsServer, place: Path) -> None:
        total = sum(path.stat().st_size for path in made.bundle.rglob("*") if path.is_file())
        assert app.get(parts.url, place / "b") == ("done", str(total))
        assert_whole(made, place / "b")
        assert len(parts.asked) == 1 + len(list(made.parts.glob("part-*")))
        # What is there is not fetched again, and needs no network.
        parts.asked.clear()
        assert app.get(parts.url, place / "b")[0] == "done" and not parts.asked

    @pytest.mark.parametrize("address", ["{}/", "{}/parts.json", "{}/x?signed=1", "{}/parts.json?signed=1"])
    def test_addresses(self, address: str, made: Made, app: App, parts: PartsServer, place: Path) -> None:
        assert app.get(address.format(parts.url), place / "b", stop="flow") == ("done", "true")
        assert_whole(made, place / "b")

    def test_fifty_cuts(self, made: Made, app: App, parts: PartsServer, place: Path) -> None:
        random = Random(7)
        cuts: list[str] = []

        def faults(name: str, number: int) -> Fault | None:
            if name == PARTS_LIST or len(cuts) == 50:
                return None
            cuts.append(name)
            return server.cut_after(random.randrange(1, 7000))

        parts.faults = faults
        assert app.get(parts.url, place / "b")[0] == "done"
        assert len(cuts) == 50
        assert_whole(made, place / "b")
        # Nothing that had arrived was fetched again.
        by_part = {name: [first for each, first in parts.asked if each == name] for name in set(cuts)}
        assert all(starts == sorted(set(starts)) for starts in by_part.values())

    @pytest.mark.parametrize(
        "fault",
        [
            server.cut_at_once,
            server.changed,
            server.shorter,
            server.empty,
            server.stall,
            server.status(500),
            server.status(503),
            server.status(429),
            server.status(416),
            server.status(204),
        ],
        ids=lambda fault: getattr(fault, "__qualname__", ""),
    )
    def test_what_fails_for_a_while_is_overcome(
        self, fault: Fault, made: Made, app: App, parts: PartsServer, place: Path
    ) -> None:
        parts.faults = lambda name, number: fault if name == "part-00002" and number < 6 else None
        assert app.get(parts.url, place / "b")[0] == "done"
        assert_whole(made, place / "b")
        assert parts.asked.count(("part-00002", 0)) >= 1 and len(parts.asked) > 1 + len(list(made.parts.glob("part-*")))

    @pytest.mark.parametrize("fault", [server.whole_always, server.other_range, server.lying_range, server.status(416)])
    def test_a_resumed_part_that_does_not_fit_is_fetched_anew(
        self, fault: Fault, made: Made, app: App, parts: PartsServer, place: Path
    ) -> None:
        left = iter(range(2))

        def faults(name: str, number: int) -> Fault | None:
            if number == 3:
                return server.cut_after(9000)
            return fault if any(first for _, first in parts.asked[-1:]) and next(left, None) is not None else None

        parts.faults = faults
        assert app.get(parts.url, place / "b")[0] == "done"
        assert_whole(made, place / "b")

    def test_bytes_after_the_end_are_not_taken(self, made: Made, app: App, parts: PartsServer, place: Path) -> None:
        parts.faults = lambda name, number: None if name == PARTS_LIST else server.longer
        assert app.get(parts.url, place / "b")[0] == "done"
        assert_whole(made, place / "b")

    @pytest.mark.parametrize(
        ("fault", "error"),
        [
            (server.cut_at_once, "DownloadFailed"),
            (server.empty, "DownloadFailed"),
            (server.status(404), "DownloadFailed"),
            (server.status(403), "DownloadFailed"),
            (server.status(500), "DownloadFailed"),
            (server.silent, "DownloadFailed"),
            (server.changed, "DownloadRefused"),
        ],
        ids=lambda value: getattr(value, "__qualname__", value),
    )
    def test_what_keeps_failing_ends_and_is_gone_on_with(
        self, fault: Fault, error: str, made: Made, app: App, parts: PartsServer, place: Path
    ) -> None:
        parts.faults = lambda name, number: fault if name == "part-00003" else None
        kind, what = app.get(parts.url, place / "b")
        assert kind == error and "part-00003" in what and not (place / "b").exists()
        assert 1 <= sum(name == "part-00003" for name, _ in parts.asked) <= 8
        parts.faults = lambda name, number: None
        parts.asked.clear()
        assert app.get(parts.url, place / "b")[0] == "done"
        assert "part-00002" not in [name for name, _ in parts.asked]
        assert_whole(made, place / "b")

    def test_cuts_at_the_same_byte_end(self, app: App, parts: PartsServer, place: Path) -> None:
        """A server that knows no ranges and cuts always at the same byte is given up."""

        def cut_whole(answer: server.Answer) -> None:
            answer.give(answer.whole[:3000], code=200, length=len(answer.whole))
            answer.cut()

        parts.faults = lambda name, number: cut_whole if name == "part-00001" else None
        assert app.get(parts.url, place / "b")[0] == "DownloadFailed"
        assert len(parts.asked) < 12

    def test_a_cancelled_download_goes_on(self, made: Made, app: App, parts: PartsServer, place: Path) -> None:
        parts.faults = lambda name, number: server.stall if name == "part-00004" else None
        kind, what = app.get(parts.url, place / "b", stop=4 * PART_BYTES + 100)
        assert kind == "cancelled" and int(what) > 4 * PART_BYTES
        parts.faults = lambda name, number: None
        parts.asked.clear()
        assert app.get(parts.url, place / "b")[0] == "done"
        assert parts.asked[1][0] == "part-00004" and parts.asked[1][1] > 0
        assert_whole(made, place / "b")

    def test_a_killed_app_goes_on(self, made: Made, parts: PartsServer, place: Path) -> None:
        parts.faults = lambda name, number: server.stall if name == "part-00003" else None
        with made.running() as doomed:
            doomed.start(parts.url, place / "b")
            part = place / ".b.download" / "part-3"
            while not (part.exists() and part.stat().st_size >= 10_000):
                assert doomed.process.poll() is None
        parts.faults = lambda name, number: None
        parts.asked.clear()
        with made.running() as second:
            assert second.get(parts.url, place / "b")[0] == "done"
        assert parts.asked[1][0] == "part-00003" and parts.asked[1][1] >= 10_000
        assert_whole(made, place / "b")

    def test_a_part_that_was_damaged_on_the_disk_is_fetched_again(
        self, made: Made, app: App, parts: PartsServer, place: Path
    ) -> None:
        parts.faults = lambda name, number: server.status(404) if name == "part-00003" else None
        app.get(parts.url, place / "b")
        (place / ".b.download" / "part-3").write_bytes(b"other bytes")
        parts.faults = lambda name, number: None
        assert app.get(parts.url, place / "b")[0] == "done"
        assert_whole(made, place / "b")

    def test_files_that_were_damaged_on_the_disk_do_not_get_the_name(
        self, made: Made, app: App, parts: PartsServer, place: Path
    ) -> None:
        parts.faults = lambda name, number: server.status(404) if name == "part-00005" else None
        app.get(parts.url, place / "b")
        large = place / ".b.download" / "bundle" / "extra" / "large.bin"
        large.write_bytes(b"\1" + large.read_bytes()[1:])
        parts.faults = lambda name, number: None
        kind, what = app.get(parts.url, place / "b")
        assert kind == "DownloadRefused" and "large.bin" in what and not (place / "b").exists()
        assert app.get(parts.url, place / "b")[0] == "done"
        assert_whole(made, place / "b")

    def test_other_parts_in_the_same_place_begin_anew(
        self, made: Made, app: App, parts: PartsServer, place: Path
    ) -> None:
        parts.faults = lambda name, number: server.status(404) if name == "part-00003" else None
        app.get(parts.url, place / "x" / "b")
        split_bundle(made.bundle, place / "other.parts", 70_000)
        with serving(place / "other.parts") as other:
            assert app.get(other.url, place / "x" / "b")[0] == "done"
        assert_whole(made, place / "x" / "b")

    def test_another_bundle_is_refused_before_its_parts(
        self, made: Made, app: App, parts: PartsServer, place: Path
    ) -> None:
        kind, what = app.get(parts.url, place / "b", digest="0" * 64)
        assert kind == "DownloadRefused" and made.digest in what and [name for name, _ in parts.asked] == [PARTS_LIST]
        assert app.get(parts.url, place / "b", digest="any")[0] == "done"
        assert app.get(parts.url, place / "b", digest="0" * 64)[0] == "DownloadRefused"
        (place / "c").mkdir()
        assert app.get(parts.url, place / "c")[0] == "DownloadRefused" and not list((place / "c").iterdir())

    def test_a_list_that_lies_about_the_manifest_is_refused_early(self, made: Made, app: App, place: Path) -> None:
        copy = Path(shutil.copytree(made.parts, place / "lying.parts"))
        fields = json.loads((copy / PARTS_LIST).read_text())
        for file in fields["files"]:
            file["path"] = "extra/other.bin" if file["path"] == "extra/large.bin" else file["path"]
        (copy / PARTS_LIST).write_text(json.dumps(fields))
        with serving(copy) as lying:
            kind, what = app.get(lying.url, place / "x" / "b")
            assert kind == "DownloadRefused" and "other files" in what and len(lying.asked) == 2
        (copy / PARTS_LIST).write_text(json.dumps(fields | {"digest": "0" * 64}))
        with serving(copy) as lying:
            kind, what = app.get(lying.url, place / "x" / "b", digest="0" * 64)
            assert kind == "DownloadRefused" and "digest" in what and len(lying.asked) == 2

    @pytest.mark.parametrize("kind", BAD)
    def test_lists_that_edgec_refuses_are_refused(self, kind: str, app: App, place: Path) -> None:
        """The cases of the parser in Python."""
        (place / PARTS_LIST).write_text(json.dumps(BAD[kind][1]))
        with serving(place) as bad:
            assert app.get(bad.url, place / "x" / "b", digest="any")[0] == "DownloadRefused"
            assert [name for name, _ in bad.asked] == [PARTS_LIST]

    def test_the_list_of_these_cases_is_good_itself(self, app: App, place: Path) -> None:
        (place / PARTS_LIST).write_text(json.dumps(GOOD))
        with serving(place) as good:
            assert app.get(good.url, place / "x" / "b", digest="any")[0] == "DownloadFailed"
            assert good.asked[1] == ("part-0", 0)

    def test_a_list_without_an_end_is_not_read_to_it(self, app: App, parts: PartsServer, place: Path) -> None:
        parts.faults = lambda name, number: server.endless
        kind, what = app.get(parts.url, place / "b")
        assert kind == "DownloadRefused" and "too large" in what

    def test_redirects(self, made: Made, app: App, parts: PartsServer, place: Path) -> None:
        with serving(place) as first:
            first.faults = lambda name, number: server.redirect(parts.url)
            assert app.get(first.url, place / "x" / "b")[0] == "done"
            assert_whole(made, place / "x" / "b")
            first.faults = lambda name, number: server.redirect(first.url)
            assert app.get(first.url, place / "x" / "c")[0] == "DownloadFailed"

    @pytest.mark.parametrize("target", ["file:///etc", "ftp://127.0.0.1", "http://127.0.0.1.example.com", "odd:x"])
    def test_redirects_elsewhere_are_refused(self, target: str, app: App, parts: PartsServer, place: Path) -> None:
        parts.faults = lambda name, number: server.redirect(target)
        assert app.get(parts.url, place / "b")[0] == "DownloadRefused"
        assert len(parts.asked) == 1

    @pytest.mark.parametrize(
        "url", ["http://192.0.2.1/x", "ftp://127.0.0.1/x", "file:///etc", "nonsense", "http://127.0.0.1@192.0.2.1/"]
    )
    def test_other_addresses_are_refused(self, url: str, app: App, place: Path) -> None:
        assert app.get(url, place / "b")[0] == "DownloadRefused"

    def test_two_at_once_are_refused(self, made: Made, app: App, parts: PartsServer, place: Path) -> None:
        parts.faults = lambda name, number: server.stall if name == "part-00001" else None
        with made.running() as other:
            other.start(parts.url, place / "b")
            while not (place / ".b.download" / "part-1").exists():
                assert other.process.poll() is None
            assert app.get(parts.url, place / "b")[0] == "DownloadRunning"
