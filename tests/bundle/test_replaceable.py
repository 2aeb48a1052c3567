"""``export --force`` replaces bundles, damaged ones too, and nothing that edgec did not write."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from edgec.bundle.folder import check_output, open_bundle, write_bundle
from edgec.errors import InputError
from tests.bundle.bundle_samples import FILES, sample_manifest, write_sample


def _kept(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        check_output(path, force=True)
    assert caught.value.code == "E123"
    assert path.exists()
    return caught.value


@pytest.mark.parametrize(
    "manifest",
    [
        '{"name": "My web app", "short_name": "app", "icons": [], "start_url": "/"}',
        '{"manifest_version": 3, "name": "extension", "version": "1", "files": ["a.js"]}',
        '{"schema_version": 3, "files": [], "digest": ""}',
        '{"schemaVersion": 2, "config": {"digest": "sha256:0", "size": 7023}, "layers": []}',
        *("[]", "null", "{", "", "[" * 100_000),
    ],
)
def test_a_folder_with_somebody_elses_manifest_is_kept(tmp_path: Path, manifest: str) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "manifest.json").write_text(manifest)
    (app / "index.html").write_text("<!doctype html>")
    _kept(app)
    with pytest.raises(InputError):
        write_bundle(app, sample_manifest(), FILES, force=True)
    assert sorted(os.listdir(app)) == ["index.html", "manifest.json"]


@pytest.mark.parametrize("name", ["notes.txt", "tokenizer/mine.json", "results/a.csv", ".DS_Store"])
def test_a_users_own_file_inside_a_bundle_is_named_and_kept(tmp_path: Path, name: str) -> None:
    path = write_sample(tmp_path)
    (path / name).parent.mkdir(exist_ok=True)
    (path / name).write_text("mine")
    assert repr(name.split("/", maxsplit=1)[0]) in _kept(path).why or repr(name) in _kept(path).why
    (path / name).unlink()
    if name == "results/a.csv":
        assert "results" in _kept(path).why, "an empty folder is somebody's too"
        (path / "results").rmdir()
    check_output(path, force=True)


def _damaged(path: Path, kind: str) -> None:
    fields: dict[str, Any] = json.loads((path / "manifest.json").read_text())
    if kind == "files":
        (path / "model.pte").write_bytes(b"cut")
        (path / "tokenizer" / "tokenizer.json").unlink()
        return
    changes: dict[str, dict[str, Any]] = {
        "digest": {"digest": "0"},
        "newer": {"schema_version": 99, "new": 1},
        "field": {"limits": "wrong"},
    }
    (path / "manifest.json").write_text(json.dumps(fields | changes[kind]))


@pytest.mark.parametrize("kind", ["files", "digest", "newer", "field"])
def test_a_damaged_bundle_is_replaced(tmp_path: Path, kind: str) -> None:
    path = write_sample(tmp_path)
    _damaged(path, kind)
    with pytest.raises(InputError):
        open_bundle(path)
    write_bundle(path, sample_manifest(), FILES, force=True)
    assert open_bundle(path).files_checked
    assert os.listdir(tmp_path) == [path.name]


def test_a_folder_in_the_place_of_a_listed_file_is_kept(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    (path / "report.html").unlink()
    (path / "report.html").mkdir()
    (path / "report.html" / "mine").touch()
    _kept(path)


def test_a_link_to_a_manifest_makes_no_bundle(tmp_path: Path) -> None:
    bundle = write_sample(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "manifest.json").symlink_to(bundle / "manifest.json")
    _kept(mine)
