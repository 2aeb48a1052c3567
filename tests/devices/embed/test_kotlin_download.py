"""The generated Kotlin downloader, run against a loopback server that fails in every way a test can think of."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO

import pytest

from edgec.bundle.folder import open_bundle, write_bundle
from edgec.bundle.parts_list import PARTS_LIST
from edgec.bundle.split import split_bundle
from edgec.devices.embed import kotlin_text
from edgec.devices.embed.gradle_modules import gradle_modules
from edgec.devices.embed.written_package import write_package
from tests.bundle.test_parts import BAD, GOOD
from tests.devices.embed import parts_server as server
from tests.devices.embed.android_bundles import CPU
from tests.devices.embed.kotlin_bundles import golden_vectors, real_bundle
from tests.devices.embed.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled
from tests.devices.embed.parts_server import Fault, PartsServer, serving

pytestmark = [pytest.mark.slow, WITH_KOTLIN]

PACKAGE = kotlin_text.package_name(CPU.name)
SOURCES = (
    "BundleDownload",
    "BundleFiles",
    "DownloadFolder",
    "EdgecException",
    "LoadStep",
    "ModelFacts",
    "PartFetch",
    "PartsList",
)
PART_BYTES = 40_000


@dataclass(frozen=True)
class Made:
    """A bundle of about 300 KB, its parts, and the compiled downloader of its package."""

    bundle: Path
    parts: Path
    classes: str

    @property
    def digest(self) -> str:
        """The manifest's."""
        return open_bundle(self.bundle).manifest.digest


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        _targets(patch)
        bundle = _enlarged(real_bundle(folder / "sample.edgec", CPU, golden_vectors()), folder / "large.edgec")
        write_package(gradle_modules(open_bundle(bundle)), folder / "kit")
    split_bundle(bundle, folder / "large.parts", PART_BYTES)
    main = folder / "DownloadMain.kt"
    main.write_text((STAND_INS / "DownloadMain.kt.txt").read_text().replace("PACKAGE", PACKAGE))
    own = [next((folder / "kit").rglob(f"{name}.kt")) for name in SOURCES]
    android = [STAND_INS / name for name in ("AssetManager.kt", "Context.kt", "JsonReader.kt")]
    return Made(bundle, folder / "large.parts", compiled([*own, *android, main], folder / "classes"))


def _targets(patch: pytest.MonkeyPatch) -> None:
    from edgec.devices.embed import app_facts
    from tests.devices.embed.ios_bundles import target

    patch.setattr(app_facts, "load_target", target)


def _enlarged(bundle: Path, path: Path) -> Path:
    """A copy of a bundle with more to download: a larger artifact, an empty file and one in a folder."""
    manifest = open_bundle(bundle).manifest
    files: dict[str, bytes | Path] = {file.path: bundle / file.path for file in manifest.files}
    more = {"extra/empty": b"", "extra/large.bin": Random(1).randbytes(300_000)}
    write_bundle(path, manifest, {**files, **more})
    (path / "model.sig").write_bytes(b"a signature")
    return path


class App:
    """The downloader in a Java virtual machine."""

    def __init__(self, classes: str) -> None:
        line = ["java", "-XX:TieredStopAtLevel=1", "-cp", classes, f"{PACKAGE}.DownloadMainKt"]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, url: str, folder: Path, digest: str = "own", stop: int | str = -1) -> None:
        """Begin a download."""
        print(url, folder, digest, stop, sep="\t", file=self._to, flush=True)

    def outcome(self) -> tuple[str, str]:
        """How the download ended: ``done`` or an error's class, and bytes or its message."""
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


@contextmanager
def running(classes: str) -> Iterator[App]:
    app = App(classes)
    try:
        yield app
    finally:
        app.process.kill()
        app.process.communicate()


@pytest.fixture(scope="module")
def app(made: Made) -> Iterator[App]:
    with running(made.classes) as started:
        yield started


@pytest.fixture
def parts(made: Made) -> Iterator[PartsServer]:
    with serving(made.parts) as started:
        yield started


def assert_whole(made: Made, folder: Path) -> None:
    """Assert that a folder is the bundle, bit for bit, and that nothing lies beside it."""
    assert not subprocess.run(["diff", "-r", made.bundle, folder], check=False, capture_output=True).stdout
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_bundle_arrives_whole(made: Made, app: App, parts: PartsServer, tmp_path: Path) -> None:
    total = sum(path.stat().st_size for path in made.bundle.rglob("*") if path.is_file())
    assert app.get(parts.url, tmp_path / "b") == ("done", str(total))
    assert_whole(made, tmp_path / "b")
    assert len(parts.asked) == 1 + len(list(made.parts.glob("part-*")))
    # What is there is not fetched again, and needs no network.
    parts.asked.clear()
    assert app.get(parts.url, tmp_path / "b")[0] == "done" and not parts.asked


@pytest.mark.parametrize("address", ["{}/", "{}/parts.json", "{}/x?signed=1", "{}/parts.json?signed=1"])
def test_addresses(address: str, made: Made, app: App, parts: PartsServer, tmp_path: Path) -> None:
    assert app.get(address.format(parts.url), tmp_path / "b", stop="flow") == ("done", "true")
    assert_whole(made, tmp_path / "b")


def test_fifty_cuts(made: Made, app: App, parts: PartsServer, tmp_path: Path) -> None:
    random, cuts = Random(7), []

    def faults(name: str, number: int) -> Fault | None:
        if name == PARTS_LIST or len(cuts) == 50:
            return None
        cuts.append(name)
        return server.cut_after(random.randrange(1, 7000))

    parts.faults = faults
    assert app.get(parts.url, tmp_path / "b")[0] == "done"
    assert len(cuts) == 50
    assert_whole(made, tmp_path / "b")
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
    fault: Fault, made: Made, app: App, parts: PartsServer, tmp_path: Path
) -> None:
    parts.faults = lambda name, number: fault if name == "part-00002" and number < 6 else None
    assert app.get(parts.url, tmp_path / "b")[0] == "done"
    assert_whole(made, tmp_path / "b")
    assert parts.asked.count(("part-00002", 0)) >= 1 and len(parts.asked) > 1 + len(list(made.parts.glob("part-*")))


@pytest.mark.parametrize("fault", [server.whole_always, server.other_range, server.lying_range, server.status(416)])
def test_a_resumed_part_that_does_not_fit_is_fetched_anew(
    fault: Fault, made: Made, app: App, parts: PartsServer, tmp_path: Path
) -> None:
    left = iter(range(2))

    def faults(name: str, number: int) -> Fault | None:
        if number == 3:
            return server.cut_after(9000)
        return fault if any(first for _, first in parts.asked[-1:]) and next(left, None) is not None else None

    parts.faults = faults
    assert app.get(parts.url, tmp_path / "b")[0] == "done"
    assert_whole(made, tmp_path / "b")


def test_bytes_after_the_end_are_not_taken(made: Made, app: App, parts: PartsServer, tmp_path: Path) -> None:
    parts.faults = lambda name, number: None if name == PARTS_LIST else server.longer
    assert app.get(parts.url, tmp_path / "b")[0] == "done"
    assert_whole(made, tmp_path / "b")


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
    fault: Fault, error: str, made: Made, app: App, parts: PartsServer, tmp_path: Path
) -> None:
    parts.faults = lambda name, number: fault if name == "part-00003" else None
    kind, what = app.get(parts.url, tmp_path / "b")
    assert kind == error and "part-00003" in what and not (tmp_path / "b").exists()
    assert 1 <= sum(name == "part-00003" for name, _ in parts.asked) <= 8
    parts.faults = lambda name, number: None
    parts.asked.clear()
    assert app.get(parts.url, tmp_path / "b")[0] == "done"
    assert "part-00002" not in [name for name, _ in parts.asked]
    assert_whole(made, tmp_path / "b")


def test_cuts_at_the_same_byte_end(app: App, parts: PartsServer, tmp_path: Path) -> None:
    """A server that knows no ranges and cuts always at the same byte is not asked for ever."""

    def cut_whole(answer: server.Answer) -> None:
        answer.give(answer.whole[:3000], code=200, length=len(answer.whole))
        answer.cut()

    parts.faults = lambda name, number: cut_whole if name == "part-00001" else None
    assert app.get(parts.url, tmp_path / "b")[0] == "DownloadFailed"
    assert len(parts.asked) < 12


def test_a_cancelled_download_goes_on(made: Made, app: App, parts: PartsServer, tmp_path: Path) -> None:
    parts.faults = lambda name, number: server.stall if name == "part-00004" else None
    kind, what = app.get(parts.url, tmp_path / "b", stop=4 * PART_BYTES + 100)
    assert kind == "cancelled" and int(what) > 4 * PART_BYTES
    parts.faults = lambda name, number: None
    parts.asked.clear()
    assert app.get(parts.url, tmp_path / "b")[0] == "done"
    assert parts.asked[1][0] == "part-00004" and parts.asked[1][1] > 0
    assert_whole(made, tmp_path / "b")


def test_a_killed_app_goes_on(made: Made, parts: PartsServer, tmp_path: Path) -> None:
    parts.faults = lambda name, number: server.stall if name == "part-00003" else None
    with running(made.classes) as doomed:
        doomed.start(parts.url, tmp_path / "b")
        part = tmp_path / ".b.download" / "part-3"
        while not (part.exists() and part.stat().st_size >= 10_000):
            assert doomed.process.poll() is None
    parts.faults = lambda name, number: None
    parts.asked.clear()
    with running(made.classes) as second:
        assert second.get(parts.url, tmp_path / "b")[0] == "done"
    assert parts.asked[1][0] == "part-00003" and parts.asked[1][1] >= 10_000
    assert_whole(made, tmp_path / "b")


def test_a_part_that_was_damaged_on_the_disk_is_fetched_again(
    made: Made, app: App, parts: PartsServer, tmp_path: Path
) -> None:
    parts.faults = lambda name, number: server.status(404) if name == "part-00003" else None
    app.get(parts.url, tmp_path / "b")
    (tmp_path / ".b.download" / "part-3").write_bytes(b"other bytes")
    parts.faults = lambda name, number: None
    assert app.get(parts.url, tmp_path / "b")[0] == "done"
    assert_whole(made, tmp_path / "b")


def test_files_that_were_damaged_on_the_disk_do_not_get_the_name(
    made: Made, app: App, parts: PartsServer, tmp_path: Path
) -> None:
    parts.faults = lambda name, number: server.status(404) if name == "part-00005" else None
    app.get(parts.url, tmp_path / "b")
    large = tmp_path / ".b.download" / "bundle" / "extra" / "large.bin"
    large.write_bytes(b"\1" + large.read_bytes()[1:])
    parts.faults = lambda name, number: None
    kind, what = app.get(parts.url, tmp_path / "b")
    assert kind == "DownloadRefused" and "large.bin" in what and not (tmp_path / "b").exists()
    assert app.get(parts.url, tmp_path / "b")[0] == "done"
    assert_whole(made, tmp_path / "b")


def test_other_parts_in_the_same_place_begin_anew(made: Made, app: App, parts: PartsServer, tmp_path: Path) -> None:
    parts.faults = lambda name, number: server.status(404) if name == "part-00003" else None
    app.get(parts.url, tmp_path / "x" / "b")
    split_bundle(made.bundle, tmp_path / "other.parts", 70_000)
    with serving(tmp_path / "other.parts") as other:
        assert app.get(other.url, tmp_path / "x" / "b")[0] == "done"
    assert_whole(made, tmp_path / "x" / "b")


def test_another_bundle_is_refused_before_its_parts(made: Made, app: App, parts: PartsServer, tmp_path: Path) -> None:
    kind, what = app.get(parts.url, tmp_path / "b", digest="0" * 64)
    assert kind == "DownloadRefused" and made.digest in what and [name for name, _ in parts.asked] == [PARTS_LIST]
    assert app.get(parts.url, tmp_path / "b", digest="any")[0] == "done"
    assert app.get(parts.url, tmp_path / "b", digest="0" * 64)[0] == "DownloadRefused"
    (tmp_path / "c").mkdir()
    assert app.get(parts.url, tmp_path / "c")[0] == "DownloadRefused" and not list((tmp_path / "c").iterdir())


def test_a_list_that_lies_about_the_manifest_is_refused_early(made: Made, app: App, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(made.parts, tmp_path / "lying.parts"))
    fields = json.loads((copy / PARTS_LIST).read_text())
    for file in fields["files"]:
        file["path"] = "extra/other.bin" if file["path"] == "extra/large.bin" else file["path"]
    (copy / PARTS_LIST).write_text(json.dumps(fields))
    with serving(copy) as lying:
        kind, what = app.get(lying.url, tmp_path / "x" / "b")
        assert kind == "DownloadRefused" and "other files" in what and len(lying.asked) == 2
    (copy / PARTS_LIST).write_text(json.dumps(fields | {"digest": "0" * 64}))
    with serving(copy) as lying:
        kind, what = app.get(lying.url, tmp_path / "x" / "b", digest="0" * 64)
        assert kind == "DownloadRefused" and "digest" in what and len(lying.asked) == 2


@pytest.mark.parametrize("kind", BAD)
def test_lists_that_edgec_refuses_are_refused(kind: str, app: App, tmp_path: Path) -> None:
    """The cases of the parser in Python."""
    (tmp_path / PARTS_LIST).write_text(json.dumps(BAD[kind][1]))
    with serving(tmp_path) as bad:
        assert app.get(bad.url, tmp_path / "x" / "b", digest="any")[0] == "DownloadRefused"
        assert [name for name, _ in bad.asked] == [PARTS_LIST]


def test_the_list_of_these_cases_is_good_itself(app: App, tmp_path: Path) -> None:
    (tmp_path / PARTS_LIST).write_text(json.dumps(GOOD))
    with serving(tmp_path) as good:
        assert app.get(good.url, tmp_path / "x" / "b", digest="any")[0] == "DownloadFailed"
        assert good.asked[1] == ("part-0", 0)


def test_a_list_without_an_end_is_not_read_to_it(app: App, parts: PartsServer, tmp_path: Path) -> None:
    parts.faults = lambda name, number: server.endless
    kind, what = app.get(parts.url, tmp_path / "b")
    assert kind == "DownloadRefused" and "too large" in what


def test_redirects(made: Made, app: App, parts: PartsServer, tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.faults = lambda name, number: server.redirect(parts.url)
        assert app.get(first.url, tmp_path / "x" / "b")[0] == "done"
        assert_whole(made, tmp_path / "x" / "b")
        first.faults = lambda name, number: server.redirect(first.url)
        assert app.get(first.url, tmp_path / "x" / "c")[0] == "DownloadFailed"


@pytest.mark.parametrize("target", ["file:///etc", "ftp://127.0.0.1", "http://127.0.0.1.example.com", "odd:x"])
def test_redirects_elsewhere_are_refused(target: str, app: App, parts: PartsServer, tmp_path: Path) -> None:
    parts.faults = lambda name, number: server.redirect(target)
    assert app.get(parts.url, tmp_path / "b")[0] == "DownloadRefused"
    assert len(parts.asked) == 1


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1/x", "ftp://127.0.0.1/x", "file:///etc", "nonsense", "http://127.0.0.1@192.0.2.1/"]
)
def test_other_addresses_are_refused(url: str, app: App, tmp_path: Path) -> None:
    assert app.get(url, tmp_path / "b")[0] == "DownloadRefused"


def test_two_at_once_are_refused(made: Made, app: App, parts: PartsServer, tmp_path: Path) -> None:
    parts.faults = lambda name, number: server.stall if name == "part-00001" else None
    with running(made.classes) as other:
        other.start(parts.url, tmp_path / "b")
        while not (tmp_path / ".b.download" / "part-1").exists():
            assert other.process.poll() is None
        assert app.get(parts.url, tmp_path / "b")[0] == "DownloadRunning"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "edgec-test", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system can be mounted by root only")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_is_too_small_is_refused_first(made: Made, app: App, parts: PartsServer, small_disk: Path) -> None:
    (small_disk / "other").write_bytes(bytes(800_000))
    assert app.get(parts.url, small_disk / "b")[0] == "NotEnoughSpace"
    assert [name for name, _ in parts.asked] == [PARTS_LIST]


def test_a_disk_that_fills_on_the_way(made: Made, app: App, parts: PartsServer, small_disk: Path) -> None:
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


def test_the_disk_needs_the_bundle_and_one_part(made: Made, app: App, parts: PartsServer, small_disk: Path) -> None:
    sizes = [path.stat().st_size for path in made.bundle.rglob("*") if path.is_file()]
    pages = sum(-(-size // 4096) * 4096 for size in sizes)
    spare = pages + PART_BYTES + 8 * 4096
    (small_disk / "other").write_bytes(bytes(shutil.disk_usage(small_disk).free - spare))
    assert app.get(parts.url, small_disk / "b")[0] == "done"
    (small_disk / "other").unlink()
    assert_whole(made, small_disk / "b")
