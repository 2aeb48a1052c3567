"""Delivery of a package: asset packs, entitlements, and a folder that is written whole or not at all."""

from __future__ import annotations

import json
import plistlib
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.apps.embed import app_facts
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import write_package
from edgec.errors import InputError
from tests.apps.ios_bundles import bundle_of, decoder_manifest
from tests.apps.project_files import facts_of
from tests.apps.swift_syntax import assert_sound


def test_a_large_bundle_is_an_asset_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_facts, "ASSET_PACK_BYTES", 100)
    package = swift_package(bundle_of(decoder_manifest("mlpackage"), tmp_path))
    assert_sound(package)
    assert package.asset_pack and package.entitled
    pack = json.loads(package.files["AssetPack/Manifest.json"])  # type: ignore[arg-type]
    assert pack["fileSelectors"] == [{"directory": "Stories260KHostKit.edgec"}]
    assert "AssetPack/Stories260KHostKit.edgec/model.mlpackage/weights" in package.files
    assert "AssetPack/Stories260KHostKit.edgec/manifest.json" in package.files
    assert 'let resources = ["facts.json"]' in str(package.files["Package.swift"])
    keys = plistlib.loads(package.files["Config/BackgroundAssets-Info.plist"])  # type: ignore[arg-type]
    assert keys["BAHasManagedAssetPacks"] is True
    rights = plistlib.loads(package.files[f"Config/{package.module}.entitlements"])  # type: ignore[arg-type]
    assert rights["com.apple.security.application-groups"] == [keys["BAAppGroupID"]]


def test_asset_packs_of_two_models_have_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All asset packs of an app share one root."""
    monkeypatch.setattr(app_facts, "ASSET_PACK_BYTES", 100)
    packages = [swift_package(bundle_of(decoder_manifest("mlpackage", name=name), tmp_path)) for name in ("a", "b")]
    texts = [package.files["AssetPack/Manifest.json"] for package in packages]
    manifests = [json.loads(text) for text in texts if isinstance(text, bytes)]
    assert [pack["fileSelectors"] for pack in manifests] == [
        [{"directory": "AKit.edgec"}],
        [{"directory": "BKit.edgec"}],
    ]
    assert facts_of(packages[1])["model"]["bundleFolder"] == "BKit.edgec"


def test_a_model_near_the_limit_gets_the_entitlement(tmp_path: Path) -> None:
    states = [decoder_manifest("pte").states[0].model_copy(update={"bytes": 2_000_000_000})]
    package = swift_package(bundle_of(decoder_manifest("mlpackage", states=states), tmp_path))
    rights = plistlib.loads(package.files[f"Config/{package.module}.entitlements"])  # type: ignore[arg-type]
    assert rights == {"com.apple.developer.kernel.increased-memory-limit": True}
    assert package.needed_bytes > 2_000_000_000


def test_an_existing_folder_is_left_alone_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    package = swift_package(bundle_of(decoder_manifest("mlpackage"), tmp_path / "bundle"))
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("keep")
    with pytest.raises(InputError) as caught:
        write_package(package, out)
    assert caught.value.code == "E461" and (out / "mine").read_text() == "keep"
    broken = replace(package, files={**package.files, "Sources/lost": tmp_path / "absent"})
    with pytest.raises(InputError):
        write_package(broken, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "out"]


def test_a_written_package_holds_the_bundle_without_its_report(tmp_path: Path) -> None:
    bundle = bundle_of(decoder_manifest("mlpackage"), tmp_path / "bundle", {"report.html": b"<html>"})
    package = swift_package(bundle)
    write_package(package, tmp_path / "out")
    resources = tmp_path / "out" / "Sources" / package.module / "Resources" / "Model.edgec"
    assert (resources / "manifest.json").read_bytes() == (bundle.path / "manifest.json").read_bytes()
    assert (resources / "model.mlpackage/weights").read_bytes() == b"weights"
    assert not (resources / "report.html").exists()
