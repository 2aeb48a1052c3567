"""The bench app: its records are those of `edgec bench`, and it finds the model."""

from __future__ import annotations

import json
import plistlib
import re
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed import app_facts
from edgec.apps.embed.swift_package import swift_package
from edgec.runtime_py.bench import record as bench_record
from tests.apps.ios_bundles import bundle_of, decoder_manifest
from tests.apps.swift_syntax import in_tree, nodes, parse, text


def _keys(source: str, function: str) -> set[str]:
    """Keys of the dictionary literals that a Swift function writes."""
    for node in nodes(parse(source), "function_declaration"):
        if text(node).startswith((f"func {function}(", f"private func {function}(", f"static func {function}(")):
            return set(re.findall(r'^\s*"([a-z0-9_]+)":', text(node), re.MULTILINE))
    raise AssertionError(f"there is no function {function}")


def _assert_fields(written: set[str], record: Any) -> None:
    """Assert that only fields of the record are written, and all those without a default."""
    fields = record.model_fields
    assert written <= set(fields)
    assert {name for name, field in fields.items() if field.is_required()} <= written


@pytest.mark.parametrize(
    ("function", "record"),
    [
        ("run", bench_record.RunRecord),
        ("load", bench_record.LoadRecord),
        ("memory", bench_record.MemoryRecord),
        ("repetition", bench_record.RepetitionRecord),
        ("sustained", bench_record.SustainedRecord),
    ],
)
def test_the_bench_app_writes_the_fields_of_the_schema(function: str, record: Any) -> None:
    source = in_tree("BenchRecords")
    _assert_fields(_keys(source, function) | _keys(source, "common"), record)
    assert {"kind", "simulated"} <= _keys(source, function) | _keys(source, "common")
    _assert_fields(_keys(source, "comparability"), bench_record.Comparability)
    _assert_fields(_keys(source, "subject"), bench_record.Subject)


def test_the_bench_app_knows_the_devices_fields_and_its_job() -> None:
    from edgec.apps.embed.swift_package import _JOB
    from edgec.devices.transport import DeviceFacts

    device = in_tree("BenchDevice")
    fields = DeviceFacts.__dataclass_fields__
    required = {name for name, field in fields.items() if field.default is MISSING}
    assert required | {"executed_in", "simulated"} <= _keys(device, "now") <= set(fields)
    job = in_tree("BenchJob")
    camel = set(re.findall(r"let (\w+):", job))
    snake = {re.sub(r"([A-Z])", lambda match: f"_{match[1].lower()}", name) for name in camel} - {"decoder"}
    assert snake == {*_JOB, "edgec_version"}


def _project(folder: Path, **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The Xcode project's objects, and the package's files."""
    files = dict(swift_package(bundle_of(decoder_manifest("mlpackage", **fields), folder)).files)
    return plistlib.loads(files["Bench/EdgecBench.xcodeproj/project.pbxproj"])["objects"], files  # type: ignore[arg-type]


def _carried(objects: dict[str, Any]) -> list[str]:
    """The paths of the app's resources."""
    phase = next(entry for entry in objects.values() if entry["isa"] == "PBXResourcesBuildPhase")
    return [objects[objects[build]["fileRef"]]["path"] for build in phase["files"]]


def test_a_bundle_outside_the_package_is_a_folder_of_the_bench_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, files = _project(tmp_path)
    assert _carried(objects) == []
    monkeypatch.setattr(app_facts, "ASSET_PACK_BYTES", 100)
    objects, files = _project(tmp_path)
    (folder,) = _carried(objects)
    assert [name for name in files if name.startswith(f"{folder.removeprefix('../')}/")]
    assert [o for o in objects.values() if o.get("path") == folder and o["lastKnownFileType"] == "folder"]
    facts = next(bytes(files[name]) for name in files if name.endswith("/facts.json"))
    assert json.loads(facts)["model"]["bundleFolder"] == Path(folder).name
    run = str(files["Bench/EdgecBench/BenchRun.swift"])
    assert "LoadOptions(bundle: folder)" in run and "EdgecModel.load()" not in run


def test_the_bench_app_is_in_the_packages_language_mode(tmp_path: Path) -> None:
    objects, files = _project(tmp_path)
    settings = [entry["buildSettings"] for entry in objects.values() if entry["isa"] == "XCBuildConfiguration"]
    assert {setting["SWIFT_VERSION"] for setting in settings if setting} == {"6.0"}
    assert "swiftLanguageModes: [.v6]" in str(files["Package.swift"])


def test_the_bench_app_shares_no_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_facts, "ASSET_PACK_BYTES", 100)
    _, files = _project(tmp_path)
    assert "Bench/EdgecBench.entitlements" not in files
    states = [decoder_manifest("pte").states[0].model_copy(update={"bytes": 2_000_000_000})]
    objects, files = _project(tmp_path, states=states)
    rights = plistlib.loads(files["Bench/EdgecBench.entitlements"])
    assert rights == {"com.apple.developer.kernel.increased-memory-limit": True}
    settings = [o["buildSettings"] for o in objects.values() if o["isa"] == "XCBuildConfiguration"]
    assert {s["CODE_SIGN_ENTITLEMENTS"] for s in settings if s} == {"EdgecBench.entitlements"}


def test_minutes_on_end_need_time_between_tokens() -> None:
    """With one new token no gap ever comes, so the loop that waits for a second of them must stop."""
    source = in_tree("BenchRun")
    loop = next(text(node) for node in nodes(parse(source), "while_statement") if "gaps.reduce" in text(node)[:60])
    assert "isEmpty { throw" in loop
