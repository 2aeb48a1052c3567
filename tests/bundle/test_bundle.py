"""Writing a bundle, and the ways in which one is refused."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import sys
from pathlib import Path

import pytest

from edgec.bundle import atomic
from edgec.bundle.canonical import canonical_json, identity_digest, seal
from edgec.bundle.folder import Bundle, check_output, open_bundle, read_manifest, write_bundle
from edgec.bundle.manifest import SCHEMA_VERSION, Build, FileInfo, Manifest, PrefixInfo
from edgec.errors import InputError
from tests.bundle.bundle_samples import FILES, sample_manifest, write_sample


def _refused(path: Path, code: str) -> InputError:
    with pytest.raises(InputError) as caught:
        open_bundle(path)
    assert caught.value.code == code, str(caught.value)
    assert caught.value.where and caught.value.fix
    return caught.value


def _rewrite(path: Path, manifest: Manifest) -> None:
    """Replace the manifest by another that is consistent in itself."""
    (path / "manifest.json").write_bytes(canonical_json(seal(manifest)))


def _relist(path: Path, old: str, new: str) -> None:
    manifest = read_manifest(path)
    files = [file.model_copy(update={"path": new}) if file.path == old else file for file in manifest.files]
    _rewrite(path, manifest.model_copy(update={"files": files}))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.edgec"
    written = write_bundle(path, sample_manifest(), FILES)
    bundle = open_bundle(path)
    assert bundle == Bundle(path, written, files_checked=True)
    assert {file.path for file in written.files} == set(FILES)
    assert bundle.artifact_path.read_bytes() == FILES["model.pte"]
    assert bundle.tokenizer_dir == path / "tokenizer"
    assert bundle.report_path == path / "report.html"
    assert bundle.golden_path is None
    assert os.listdir(tmp_path) == ["a.edgec"]


def test_files_are_copied_from_paths_and_listed_with_size_and_sha256(tmp_path: Path) -> None:
    source = tmp_path / "artifact"
    source.write_bytes(b"x" * 3_000_000)
    manifest = write_bundle(tmp_path / "a.edgec", sample_manifest(), {"model.pte": source})
    assert manifest.files == [
        FileInfo(path="model.pte", bytes=3_000_000, sha256=hashlib.sha256(b"x" * 3_000_000).hexdigest())
    ]


def test_the_digest_can_be_checked_by_text_replacement(tmp_path: Path) -> None:
    text = (write_sample(tmp_path) / "manifest.json").read_text()
    digest = json.loads(text)["digest"]
    assert hashlib.sha256(text.replace(digest, "").encode()).hexdigest() == digest


def test_same_input_same_bytes_and_only_the_named_fields_are_left_out_of_the_identity(tmp_path: Path) -> None:
    first = write_bundle(tmp_path / "a.edgec", sample_manifest(), FILES)
    second = write_bundle(tmp_path / "b.edgec", sample_manifest(), FILES)
    assert (tmp_path / "a.edgec/manifest.json").read_bytes() == (tmp_path / "b.edgec/manifest.json").read_bytes()
    later = sample_manifest(build=Build(created="2027-01-01T00:00:00Z"))
    third = write_bundle(tmp_path / "c.edgec", later, {**FILES, "report.html": b"other"})
    assert first.digest == second.digest != third.digest
    assert identity_digest(first) == identity_digest(third)
    changed = write_bundle(tmp_path / "d.edgec", sample_manifest(), {**FILES, "model.pte": b"other"})
    assert identity_digest(changed) != identity_digest(first)


def test_existing_output_is_kept_without_force_and_replaced_with_it(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    before = (path / "manifest.json").read_bytes()
    with pytest.raises(InputError) as caught:
        write_bundle(path, sample_manifest(name="other"), FILES)
    assert caught.value.code == "E120" and (path / "manifest.json").read_bytes() == before
    write_bundle(path, sample_manifest(name="other"), FILES, force=True)
    assert open_bundle(path).manifest.name == "other"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_force_never_deletes_what_is_no_bundle(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "precious"
    target = write_sample(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to(target)
    else:
        path.mkdir() if kind == "folder" else path.touch()
    with pytest.raises(InputError) as caught:
        check_output(path, force=True)
    assert caught.value.code == "E123" and os.path.lexists(path)


def test_output_below_a_file_is_refused_before_work_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError) as caught:
        check_output(tmp_path / "file" / "a.edgec", force=False)
    assert caught.value.code == "E121"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody may write")
def test_unwritable_output_is_refused_before_work_starts() -> None:
    with pytest.raises(InputError) as caught:
        check_output(Path("/proc/a.edgec"), force=False)
    assert caught.value.code == "E121"


def test_too_little_space_is_refused_with_the_bytes_needed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too full") as caught:
        check_output(tmp_path / "a.edgec", force=False, needed_bytes=1 << 60)
    assert caught.value.code == "E122" and f"{1 << 60:,}" in caught.value.why


def test_missing_parents_are_made(tmp_path: Path) -> None:
    write_bundle(tmp_path / "x/y/a.edgec", sample_manifest(), FILES)
    assert open_bundle(tmp_path / "x/y/a.edgec").files_checked


def test_disk_full_on_the_way_is_typed_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic, "sync_tree", full)
    with pytest.raises(InputError) as caught:
        write_bundle(tmp_path / "a.edgec", sample_manifest(), FILES)
    assert caught.value.code == "E122" and os.listdir(tmp_path) == []


def test_ctrl_c_leaves_the_old_bundle_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_sample(tmp_path)

    def interrupt(folder: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic, "sync_tree", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_bundle(path, sample_manifest(name="other"), FILES, force=True)
    assert os.listdir(tmp_path) == [path.name] and open_bundle(path).manifest.name == "stories260K-host"


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/passwd", "a//b", "a/./b", "c:evil", "a\\b", "", "manifest.json", "a\nb"]
)
def test_a_path_that_is_not_plain_is_never_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        write_bundle(tmp_path / "a.edgec", sample_manifest(), {"model.pte": b"", name: b""})
    assert os.listdir(tmp_path) == []


def test_a_number_that_json_lacks_becomes_null(tmp_path: Path) -> None:
    written = write_bundle(tmp_path / "a.edgec", sample_manifest(recipe={"x": float("inf")}), FILES)
    assert written.recipe == {"x": None} == open_bundle(tmp_path / "a.edgec").manifest.recipe


@pytest.mark.parametrize("path", ["absent", "file", "empty", "a\0b", "x" * 300])
def test_what_is_no_bundle_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    _refused(tmp_path / path, "E130")


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    path = write_sample(tmp_path)
    (path / name).unlink()
    _refused(path, "E134")


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_flipped_bit_is_refused_with_and_a_new_size_also_without_hashing(tmp_path: Path, name: str) -> None:
    path = write_sample(tmp_path)
    data = bytearray((path / name).read_bytes())
    data[len(data) // 2] ^= 1
    (path / name).write_bytes(data)
    _refused(path, "E135")
    assert not open_bundle(path, check_files=False).files_checked
    (path / name).write_bytes(data + b"\0")
    with pytest.raises(InputError):
        open_bundle(path, check_files=False)


@pytest.mark.parametrize("name", ["extra", "tokenizer/extra", "folder/", ".hidden"])
def test_an_unlisted_file_or_folder_is_refused(tmp_path: Path, name: str) -> None:
    path = write_sample(tmp_path)
    (path / name).mkdir() if name.endswith("/") else (path / name).touch()
    _refused(path, "E136")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_link_is_refused_even_to_the_right_content(tmp_path: Path, kind: str) -> None:
    path = write_sample(tmp_path)
    name = "model.pte" if kind == "file" else "tokenizer"
    (path / name).rename(tmp_path / "moved")
    (path / name).symlink_to(tmp_path / "moved")
    _refused(path, "E134" if kind == "file" else "E136")


def test_a_pipe_in_place_of_a_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    for name in ("model.pte", "manifest.json"):
        (path / name).unlink()
        os.mkfifo(path / name)
    _refused(path, "E131")


@pytest.mark.parametrize(
    "name", ["../stories260K-host.edgec/model.pte", "/etc/hostname", "./model.pte", "Manifest.JSON"]
)
def test_a_listed_path_that_leaves_the_bundle_is_refused(tmp_path: Path, name: str) -> None:
    path = write_sample(tmp_path)
    _relist(path, "model.pte", name)
    _refused(path, "E137")


@pytest.mark.parametrize(
    ("name", "other"),
    [("weights.bin", "Weights.bin"), ("caf\u00e9.json", "cafe\u0301.json"), ("stra\u00dfe.txt", "STRASSE.txt")],
    ids=("case", "form of an accent", "folded"),
)
def test_names_that_are_one_on_a_mac_are_neither_written_nor_read(tmp_path: Path, name: str, other: str) -> None:
    with pytest.raises(InputError) as refused:
        write_bundle(tmp_path / "a.edgec", sample_manifest(), {**FILES, name: b"1", other: b"2"})
    assert refused.value.code == "E923" and name in refused.value.why and other in refused.value.why
    assert not (tmp_path / "a.edgec").exists()
    path = write_sample(tmp_path)
    manifest = read_manifest(path)
    more = [FileInfo(path=each, bytes=1, sha256=hashlib.sha256(b"1").hexdigest()) for each in (name, other)]
    _rewrite(path, manifest.model_copy(update={"files": [*manifest.files, *more]}))
    _refused(path, "E137")


def test_a_file_listed_twice_is_refused(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    manifest = read_manifest(path)
    _rewrite(path, manifest.model_copy(update={"files": [*manifest.files, manifest.files[0]]}))
    _refused(path, "E137")


@pytest.mark.parametrize("name", ["model.pt", "tokenizer", "model.pte/model.pte"])
def test_an_artifact_that_is_not_a_listed_file_is_refused(tmp_path: Path, name: str) -> None:
    path = write_sample(tmp_path)
    _rewrite(path, read_manifest(path).model_copy(update={"artifact": name}))
    _refused(path, "E134")


@pytest.mark.parametrize("field", ["artifact", "prefix.text", "prefix.state"])
@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "tokenizer/../../secret", "a//b", "", "\0", "C:\\x"])
def test_no_path_of_a_manifest_leaves_the_bundle(tmp_path: Path, field: str, name: str) -> None:
    path = write_sample(tmp_path)
    (tmp_path / "secret").write_text("nobody's business")
    prefix = PrefixInfo(form="text", tokens=1, bytes=1, text="report.html", state="report.html", fingerprint="0" * 64)
    own = prefix.model_copy(update={field.removeprefix("prefix."): name})
    changes = {"artifact": name} if field == "artifact" else {"prefix": own}
    _rewrite(path, read_manifest(path).model_copy(update=changes))
    assert repr(name) in _refused(path, "E137").what


@pytest.mark.parametrize("field", ["text", "state"])
def test_a_prefix_that_is_not_listed_is_refused(tmp_path: Path, field: str) -> None:
    path = write_sample(tmp_path)
    prefix = PrefixInfo(form="text", tokens=1, bytes=1, text="report.html", state="report.html", fingerprint="0" * 64)
    _rewrite(path, read_manifest(path).model_copy(update={"prefix": prefix.model_copy(update={field: "absent"})}))
    _refused(path, "E134")


@pytest.mark.parametrize(
    ("version", "side"), [(SCHEMA_VERSION + 1, "install a newer edgec"), (SCHEMA_VERSION - 1, "export the model again")]
)
def test_another_schema_version_says_which_side_to_change(tmp_path: Path, version: int, side: str) -> None:
    path = write_sample(tmp_path)
    fields = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({"schema_version": version, "new": fields}))
    assert side in _refused(path, "E133").fix


def test_a_wrong_digest_is_refused(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"target": "host"', '"target": "hos7"'))
    _refused(path, "E132")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"layers": 5', '"layers":  5'),
        ('"layers": 5', '"layers": 5.0'),
        ('"layers": 5', '"layers": "5"'),
        ('"layers": 5', '"layers": 05'),
        ('"ratio": 0.1', '"ratio": 0.10'),
        ('"ratio": 0.1', '"ratio": 1e999'),
        ('"ratio": 0.1', '"ratio": NaN'),
        ('"ratio": 0.1', '"ratio": ' + "9" * 5000),
        ('"ratio": 0.1', '"ratio": "\\ud800"'),
        ('"ratio": 0.1', '"ratio": ' + "[" * 900 + "]" * 900),
        ('"ratio": 0.1', '"ratio": ' + "[" * 200_000 + "]" * 200_000),
        ('"target": "host"', '"target": "host", "target": "host"'),
        ('"target": "host"', '"target": "host", "unknown": 1'),
        ('"target": "host"', '"target": null'),
        ('"target": "host"', '"target": "h\\u006fst"'),
    ],
)
def test_a_manifest_that_is_not_canonical_is_refused(tmp_path: Path, old: str, new: str) -> None:
    path = write_sample(tmp_path)
    text = (path / "manifest.json").read_text()
    assert re.search(re.escape(old), text)
    (path / "manifest.json").write_text(text.replace(old, new))
    _refused(path, "E131")


@pytest.mark.parametrize(
    "raw",
    [b"", b"\0", b"\xff\xfe{}", b"null", b"[]", b"3", b'"x"', b"{}", b'{"schema_version": true}', b"[" * 1_000_000],
)
def test_a_garbage_manifest_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = write_sample(tmp_path)
    (path / "manifest.json").write_bytes(raw)
    _refused(path, "E131")


@pytest.mark.skipif(sys.platform != "linux", reason="Python sets extended attributes on Linux alone")
def test_a_bundle_with_the_mark_of_a_download_is_data_and_opens(tmp_path: Path) -> None:
    """macOS marks what a browser fetches; the guide says when the mark matters, and how it is taken away."""
    path = write_sample(tmp_path)
    for file in (path, *path.rglob("*")):
        os.setxattr(file, "user.com.apple.quarantine", b"0083;65f0a1b2;Safari;")
    assert open_bundle(path).artifact_path.read_bytes() == FILES["model.pte"]
    guide = (Path(__file__).parents[2] / "docs" / "install.md").read_text()
    assert "`xattr -dr com.apple.quarantine NAME.edgec`" in guide
