"""`edgec embed` from the command line, on bundles that need not run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgec.bundle.folder import write_bundle
from edgec.bundle.golden import golden_bytes
from edgec.bundle.manifest import Manifest
from edgec.cli.app import run_cli
from tests.apps.android_bundles import EXAMPLE, TOKENIZER, artifact_files
from tests.apps.ios_bundles import GOLDEN, decoder_manifest
from tests.bundle.bundle_samples import FILES, sample_manifest

ANDROID_FILES: dict[str, bytes | Path] = {f"tokenizer/{name}": EXAMPLE / name for name in TOKENIZER}
ANDROID_FILES["golden.json"] = golden_bytes(GOLDEN)


def _bundle(folder: Path, manifest: Manifest) -> Path:
    files = {name.replace("model.pte", manifest.artifact): content for name, content in FILES.items()}
    write_bundle(folder / "tiny.edgec", manifest, {**files, "golden.json": golden_bytes(GOLDEN)})
    return folder / "tiny.edgec"


def test_a_package_is_written_beside_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_cli(["embed", str(_bundle(tmp_path, decoder_manifest("pte-cpu"))), "--platform", "ios"]) == 0
    said = capsys.readouterr().out
    assert "tiny-ios" in said and "no Mac has compiled them" in said and "(estimated)" in said
    assert (tmp_path / "tiny-ios" / "Package.swift").is_file()
    manifest = tmp_path / "tiny-ios/Sources/Stories260KHostKit/Resources/Model.edgec/manifest.json"
    assert manifest.read_bytes() == (tmp_path / "tiny.edgec" / "manifest.json").read_bytes()


def test_json_says_what_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = _bundle(tmp_path, decoder_manifest("pte-cpu"))
    assert run_cli(["embed", str(bundle), "--platform", "ios", "--out", str(tmp_path / "kit"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["package"] == str(tmp_path / "kit") and said["compiled"] is False and said["minimum_os"] == "17.0"
    assert all((tmp_path / "kit" / name).is_file() for name in said["files"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--platform", "ios"], "E460"),
        (["--platform", "symbian"], "E466"),
        ([], "E100"),
        (["--platform", "ios", "--target-sdk", "35"], "E472"),
        (["--platform", "android", "--target-sdk", "20"], "E472"),
        (["--platform", "android", "--tools", "absent.json"], "E629"),
    ],
)
def test_mistakes_are_typed_errors(
    arguments: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = _bundle(tmp_path, sample_manifest(target="android-cpu"))
    before = sorted(tmp_path.iterdir())
    assert run_cli(["embed", str(bundle), *arguments]) == 1
    assert code in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.long
def test_androids_target_is_the_apps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = decoder_manifest("pte-cpu", target="android-cpu")
    write_bundle(tmp_path / "tiny.edgec", manifest, {**artifact_files(manifest), **ANDROID_FILES})
    arguments = ["embed", str(tmp_path / "tiny.edgec"), "--platform", "android", "--out", str(tmp_path / "kit")]
    assert run_cli([*arguments, "--target-sdk", "34"]) == 0
    assert "no Gradle build was run" in capsys.readouterr().out
    assert "edgecTargetSdk=34" in (tmp_path / "kit/gradle.properties").read_text()


def test_a_damaged_bundle_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = _bundle(tmp_path, decoder_manifest("pte-cpu"))
    (bundle / "model.pte").write_bytes(b"other")
    assert run_cli(["embed", str(bundle), "--platform", "ios", "--out", str(tmp_path / "kit")]) == 1
    assert "E135" in capsys.readouterr().err and not (tmp_path / "kit").exists()
