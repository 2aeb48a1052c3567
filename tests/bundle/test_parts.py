"""Bundles cut into parts and joined again: the same bytes, or a refusal that names what is wrong."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.bundle import atomic, join
from edgec.bundle.folder import SIGNATURE, open_bundle, write_bundle
from edgec.bundle.join import join_parts
from edgec.bundle.parts_list import (
    MAX_COUNT,
    MAX_PART_BYTES,
    PARTS_LIST,
    PartsList,
    parse_parts_list,
    parts_text,
    read_parts_list,
)
from edgec.bundle.split import split_bundle
from edgec.errors import InputError
from tests.bundle.bundle_samples import FILES, sample_manifest, write_sample
from tests.example_counts import examples

PART_BYTES = 1500


@pytest.fixture(scope="module", autouse=True)
def no_flushing() -> Iterator[None]:
    """Flush nothing to the disk, which takes most of the time and which nothing here can see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with a file that is called a signature. Read only."""
    path = write_sample(tmp_path_factory.mktemp("bundle"))
    (path / SIGNATURE).write_bytes(b"signed")
    return path


@pytest.fixture
def parts(bundle: Path, tmp_path: Path) -> Path:
    """The bundle in parts of 1,500 bytes."""
    split_bundle(bundle, tmp_path / "a.parts", PART_BYTES)
    return tmp_path / "a.parts"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(code: str, call: Callable[[], object]) -> InputError:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.code == code, str(caught.value)
    assert caught.value.fix and caught.value.where
    return caught.value


def rewritten(folder: Path, **fields: Any) -> None:
    path = folder / PARTS_LIST
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


class TestSplit:
    def test_parts_are_the_files_one_after_the_other(self, bundle: Path, parts: Path) -> None:
        listed = read_parts_list(parts)
        assert [file.path for file in listed.files] == ["manifest.json", SIGNATURE, *sorted(FILES)]
        whole = b"".join((bundle / file.path).read_bytes() for file in listed.files)
        assert b"".join((parts / part.name).read_bytes() for part in listed.parts) == whole
        assert [part.bytes for part in listed.parts[:-1]] == [PART_BYTES] * (len(whole) // PART_BYTES)
        assert (listed.bytes, listed.digest) == (len(whole), open_bundle(bundle).manifest.digest)
        assert sorted(contents(parts)) == sorted([PARTS_LIST, *(part.name for part in listed.parts)])

    def test_the_same_bundle_gives_the_same_parts(self, bundle: Path, parts: Path, tmp_path: Path) -> None:
        split_bundle(bundle, tmp_path / "b.parts", PART_BYTES)
        assert contents(tmp_path / "b.parts") == contents(parts)

    def test_a_damaged_bundle_is_not_split(self, bundle: Path, tmp_path: Path) -> None:
        copy = Path(shutil.copytree(bundle, tmp_path / "copy.edgec"))
        (copy / "model.pte").write_bytes(b"\1" + (copy / "model.pte").read_bytes()[1:])
        refused("E135", lambda: split_bundle(copy, tmp_path / "b.parts"))
        assert os.listdir(tmp_path) == ["copy.edgec"]

    def test_a_bundle_that_changes_meanwhile_is_noticed(self, bundle: Path, tmp_path: Path) -> None:
        copy = Path(shutil.copytree(bundle, tmp_path / "copy.edgec"))

        def change(done: int, of: int) -> None:
            (copy / "report.html").write_bytes(b"another")

        error = refused("E687", lambda: split_bundle(copy, tmp_path / "b.parts", told=change))
        assert "report.html" in error.why and os.listdir(tmp_path) == ["copy.edgec"]

    def test_an_existing_output_stays(self, bundle: Path, parts: Path) -> None:
        before = contents(parts)
        refused("E120", lambda: split_bundle(bundle, parts, 10))
        assert contents(parts) == before

    @pytest.mark.parametrize("part_bytes", [0, -1, MAX_PART_BYTES + 1])
    def test_parts_of_such_a_size_are_refused(self, part_bytes: int, bundle: Path, tmp_path: Path) -> None:
        refused("E688", lambda: split_bundle(bundle, tmp_path / "b.parts", part_bytes))

    def test_too_many_parts_are_refused(self, tmp_path: Path) -> None:
        large = tmp_path / "large.edgec"
        write_bundle(large, sample_manifest(), FILES | {"model.pte": bytes(MAX_COUNT)})
        refused("E688", lambda: split_bundle(large, tmp_path / "b.parts", 1))

    def test_a_full_disk_leaves_nothing(self, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(folder: Path) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(atomic, "sync_tree", full)
        refused("E122", lambda: split_bundle(bundle, tmp_path / "b.parts"))
        assert os.listdir(tmp_path) == []


CONTENTS = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "É", "x.bin"]), min_size=1, max_size=3).map("/".join),
    st.binary(max_size=60),
    max_size=6,
).filter(lambda files: not any(other.startswith(f"{name}/") for name in files for other in files))


@settings(max_examples=examples(40), deadline=None)
@given(files=CONTENTS, model=st.binary(max_size=300), part_bytes=st.integers(99, 9000), signed=st.booleans())
def test_any_files_in_parts_of_any_size_join_to_the_same_bytes(
    files: dict[str, bytes], model: bytes, part_bytes: int, signed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    write_bundle(folder / "a.edgec", sample_manifest(), {**files, "model.pte": model})
    if signed:
        (folder / "a.edgec" / SIGNATURE).write_bytes(b"")
    split_bundle(folder / "a.edgec", folder / "a.parts", part_bytes)
    join_parts(folder / "a.parts", folder / "b.edgec")
    assert contents(folder / "b.edgec") == contents(folder / "a.edgec")
    assert sorted(os.listdir(folder)) == ["a.edgec", "a.parts", "b.edgec"]


def _swap(parts: Path) -> str:
    (parts / "part-00001").rename(parts / "aside")
    (parts / "part-00002").rename(parts / "part-00001")
    (parts / "aside").rename(parts / "part-00002")
    return "part-00001"


def _changed(parts: Path, name: str, change: Callable[[bytes], bytes]) -> str:
    (parts / name).write_bytes(change((parts / name).read_bytes()))
    return name


def _linked(parts: Path) -> str:
    (parts / "part-00001").rename(parts / "aside")
    (parts / "part-00001").symlink_to("aside")
    return "part-00001"


DAMAGE: dict[str, tuple[str, Callable[[Path], str]]] = {
    "changed": ("E686", lambda parts: _changed(parts, "part-00003", lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]))),
    "cut off": ("E686", lambda parts: _changed(parts, "part-00002", lambda raw: raw[:-1])),
    "empty": ("E686", lambda parts: _changed(parts, "part-00002", lambda raw: b"")),
    "longer": ("E686", lambda parts: _changed(parts, "part-00002", lambda raw: raw + b"x")),
    "swapped": ("E686", _swap),
    "a link": ("E685", _linked),
}


def _unfinished(parts: Path, out: Path) -> Path:
    """The work folder of a join that lacked its last part, which is there afterwards."""
    last = sorted(parts.glob("part-*"))[-1]
    last.rename(parts / "aside")
    refused("E685", lambda: join_parts(parts, out))
    (parts / "aside").rename(last)
    return out.parent / f".{out.name}~joining"


class TestJoin:
    @pytest.mark.parametrize("damage", DAMAGE)
    def test_a_damaged_part_is_named_and_nothing_appears(self, damage: str, parts: Path, tmp_path: Path) -> None:
        code, change = DAMAGE[damage]
        name = change(parts)
        error = refused(code, lambda: join_parts(parts, tmp_path / "b.edgec"))
        assert name in error.what and not (tmp_path / "b.edgec").exists()

    def test_a_join_goes_on_where_a_part_was_missing(
        self, bundle: Path, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (parts / "part-00004").rename(tmp_path / "aside")
        assert "part-00004" in refused("E685", lambda: join_parts(parts, tmp_path / "b.edgec")).what
        for index in range(4):
            (parts / f"part-0000{index}").unlink()
        (tmp_path / "aside").rename(parts / "part-00004")
        join_parts(parts, tmp_path / "b.edgec")
        assert contents(tmp_path / "b.edgec") == contents(bundle)
        assert sorted(os.listdir(tmp_path)) == ["a.parts", "b.edgec"]

    def test_another_list_begins_anew(self, bundle: Path, parts: Path, tmp_path: Path) -> None:
        (parts / "part-00004").unlink()
        refused("E685", lambda: join_parts(parts, tmp_path / "b.edgec"))
        split_bundle(bundle, tmp_path / "c.parts", 999)
        join_parts(tmp_path / "c.parts", tmp_path / "b.edgec")
        assert contents(tmp_path / "b.edgec") == contents(bundle)

    def test_a_join_that_is_killed_between_two_parts_goes_on(self, bundle: Path, parts: Path, tmp_path: Path) -> None:
        def stop(done: int, of: int) -> None:
            if done > of // 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            join_parts(parts, tmp_path / "b.edgec", told=stop)
        seen: list[int] = []
        join_parts(parts, tmp_path / "b.edgec", told=lambda done, of: seen.append(done))
        assert contents(tmp_path / "b.edgec") == contents(bundle) and len(seen) < len(read_parts_list(parts).parts)

    def test_parts_in_another_order_are_not_the_bundle(self, parts: Path, tmp_path: Path) -> None:
        fields = json.loads((parts / PARTS_LIST).read_text())
        order = fields["parts"]
        order[1], order[2] = order[2], order[1]
        rewritten(parts, parts=order)
        assert "manifest.json" in refused("E687", lambda: join_parts(parts, tmp_path / "b.edgec")).why
        # What was wrong is not gone on with.
        order[1], order[2] = order[2], order[1]
        rewritten(parts, parts=order)
        assert join_parts(parts, tmp_path / "b.edgec")

    def test_a_list_that_leaves_out_a_file_of_the_manifest_is_refused(self, parts: Path, tmp_path: Path) -> None:
        listed = read_parts_list(parts)
        at = next(index for index, file in enumerate(listed.files) if file.path == "report.html")
        renamed = listed.files[at].model_copy(update={"path": "readme.html"})
        files = [*listed.files[:at], renamed, *listed.files[at + 1 :]]
        (parts / PARTS_LIST).write_bytes(parts_text(listed.model_copy(update={"files": files})))
        assert "other files" in refused("E687", lambda: join_parts(parts, tmp_path / "b.edgec")).why

    def test_another_digest_than_the_one_given_is_refused_first(self, parts: Path, tmp_path: Path) -> None:
        refused("E687", lambda: join_parts(parts, tmp_path / "b.edgec", digest="0" * 64))
        assert os.listdir(tmp_path) == ["a.parts"]
        rewritten(parts, digest="0" * 64)
        refused("E687", lambda: join_parts(parts, tmp_path / "b.edgec", digest="0" * 64))

    def test_an_existing_output_stays(self, bundle: Path, parts: Path) -> None:
        refused("E120", lambda: join_parts(parts, bundle))

    def test_a_full_disk_keeps_what_was_joined(
        self, bundle: Path, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        copy, calls = join._copy, []

        def full(*arguments: Any) -> None:
            calls.append(arguments)
            if len(calls) > 3:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            copy(*arguments)

        monkeypatch.setattr(join, "_copy", full)
        refused("E122", lambda: join_parts(parts, tmp_path / "b.edgec"))
        monkeypatch.setattr(join, "_copy", copy)
        seen: list[int] = []
        join_parts(parts, tmp_path / "b.edgec", told=lambda done, of: seen.append(done))
        assert contents(tmp_path / "b.edgec") == contents(bundle) and seen[0] > PART_BYTES

    @pytest.mark.parametrize("said", [b"\xff\xfe", b"9" * 5000, b"-1", b"", "٣".encode(), None])
    def test_a_count_that_is_none_begins_anew(
        self, said: bytes | None, bundle: Path, parts: Path, tmp_path: Path
    ) -> None:
        taken = _unfinished(parts, tmp_path / "b.edgec") / "taken"
        taken.unlink()
        taken.mkdir() if said is None else taken.write_bytes(said)
        join_parts(parts, tmp_path / "b.edgec")
        assert contents(tmp_path / "b.edgec") == contents(bundle)

    @pytest.mark.parametrize("name", ["", "list.json", "taken", "bundle", "bundle/model.pte"])
    @pytest.mark.parametrize("kind", ["symbolic", "hard", "pipe"])
    def test_a_work_folder_with_links_is_refused_and_nothing_behind_them_changes(
        self, name: str, kind: str, parts: Path, tmp_path: Path
    ) -> None:
        path = _unfinished(parts, tmp_path / "b.edgec") / name
        aside = path.rename(tmp_path / "aside")
        before = contents(aside) or aside.read_bytes()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "hard" and aside.is_file():
            path.hardlink_to(aside)
        else:
            path.symlink_to(aside)
        error = refused("E121", lambda: join_parts(parts, tmp_path / "b.edgec"))
        assert error.where == str(path) and not (tmp_path / "b.edgec").exists()
        assert (contents(aside) or aside.read_bytes()) == before

    def test_a_work_folder_of_another_user_is_refused(
        self, bundle: Path, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = _unfinished(parts, tmp_path / "b.edgec")
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
            error = refused("E121", lambda: join_parts(parts, tmp_path / "b.edgec"))
        assert "another user" in error.why and error.where == str(folder)
        join_parts(parts, tmp_path / "b.edgec")
        assert contents(tmp_path / "b.edgec") == contents(bundle)

    def test_two_at_once_are_refused(self, parts: Path, tmp_path: Path) -> None:
        def again(done: int, of: int) -> None:
            refused("E689", lambda: join_parts(parts, tmp_path / "b.edgec"))

        join_parts(parts, tmp_path / "b.edgec", told=again)


def _files(**fields: Any) -> list[dict[str, Any]]:
    good = {"path": "manifest.json", "bytes": 10, "sha256": "0" * 64}
    return [good, {"path": "a", "bytes": 5, "sha256": "0" * 64} | fields]


def _parts(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "part-0", "bytes": 15, "sha256": "0" * 64} | fields]


GOOD = {"format_version": 1, "name": "n", "digest": "0" * 64, "bytes": 15, "files": _files(), "parts": _parts()}
BAD: dict[str, tuple[str, Any]] = {
    "not an object": ("E681", []),
    "no version": ("E681", {key: value for key, value in GOOD.items() if key != "format_version"}),
    "true as version": ("E681", GOOD | {"format_version": True}),
    "a newer version": ("E682", GOOD | {"format_version": 2, "more": 1}),
    "an unknown field": ("E681", GOOD | {"more": 1}),
    "no files": ("E681", GOOD | {"files": []}),
    "no parts": ("E681", GOOD | {"parts": []}),
    "bytes below 0": ("E681", GOOD | {"files": _files(bytes=-5)}),
    "a part of no bytes": ("E681", GOOD | {"parts": _parts(bytes=0)}),
    "a part too large": ("E681", GOOD | {"parts": _parts(bytes=MAX_PART_BYTES + 1), "bytes": MAX_PART_BYTES + 1}),
    "a number beyond 2^53": ("E681", GOOD | {"bytes": 1 << 60}),
    "a sha256 that is none": ("E681", GOOD | {"parts": _parts(sha256="0" * 63)}),
    "too many parts": ("E681", GOOD | {"parts": _parts() * (MAX_COUNT + 1)}),
    "a long name": ("E681", GOOD | {"name": "n" * 1001}),
    "a part's name with a slash": ("E681", GOOD | {"parts": _parts(name="a/b")}),
    "a part's name with dots": ("E681", GOOD | {"parts": _parts(name="..")}),
    "a part's name with a query": ("E681", GOOD | {"parts": _parts(name="a?b")}),
    "a part called as the list": ("E683", GOOD | {"parts": _parts(name="Parts.json")}),
    "a part twice": ("E683", GOOD | {"parts": _parts(bytes=7) + _parts(bytes=8, name="PART-0")}),
    "a path that leaves": ("E683", GOOD | {"files": _files(path="../a")}),
    "an absolute path": ("E683", GOOD | {"files": _files(path="/a")}),
    "a path with a backslash": ("E683", GOOD | {"files": _files(path="..\\a")}),
    "a long path": ("E683", GOOD | {"files": _files(path="a" * 513)}),
    "an empty path": ("E683", GOOD | {"files": _files(path="")}),
    "a file twice": ("E683", GOOD | {"files": _files(path="Manifest.JSON")}),
    "a file that is a folder": ("E683", GOOD | {"files": [*_files(bytes=3), _files(path="A/b", bytes=2)[1]]}),
    "no manifest first": ("E683", GOOD | {"files": _files()[::-1]}),
    "files that do not add up": ("E684", GOOD | {"files": _files(bytes=6)}),
    "parts that do not add up": ("E684", GOOD | {"parts": _parts(bytes=14)}),
}


class TestList:
    def test_a_good_one_is_read(self) -> None:
        assert parse_parts_list(json.dumps(GOOD).encode(), Path("x")) == PartsList.model_validate(GOOD)

    @pytest.mark.parametrize("kind", BAD)
    def test_a_bad_one_is_refused(self, kind: str) -> None:
        code, fields = BAD[kind]
        refused(code, lambda: parse_parts_list(json.dumps(fields).encode(), Path("x")))

    @pytest.mark.parametrize("raw", [b"", b"{", b"[" * 100_000, b"\xff", b'{"format_version": 1e999}'])
    def test_what_is_not_json_is_refused(self, raw: bytes) -> None:
        refused("E681", lambda: parse_parts_list(raw, Path("x")))

    def test_a_large_one_is_not_read(self, parts: Path) -> None:
        (parts / PARTS_LIST).write_bytes(b" " * ((8 << 20) + 1))
        assert "8,388,608" in refused("E681", lambda: read_parts_list(parts)).why

    def test_a_folder_without_one_is_refused(self, tmp_path: Path) -> None:
        refused("E680", lambda: read_parts_list(tmp_path))
        (tmp_path / PARTS_LIST).symlink_to("/dev/zero")
        refused("E681", lambda: read_parts_list(tmp_path))

    @settings(max_examples=examples(200), deadline=None)
    @given(raw=st.binary(max_size=200), at=st.integers(0, 2000), end=st.integers(0, 2000))
    def test_a_damaged_one_is_refused_or_read(self, raw: bytes, at: int, end: int) -> None:
        text = json.dumps(GOOD).encode()
        try:
            parse_parts_list(text[: at % len(text)] + raw + text[end % len(text) :], Path("x"))
        except InputError as error:
            assert error.code in ("E681", "E682", "E683", "E684")
