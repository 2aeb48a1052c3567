"""Kits and bench apps compile in Swift's language mode 6, without error or warning, over stand-ins for Apple's code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed import app_facts
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import write_package
from edgec.bundle.manifest import Manifest
from edgec.bundle.shipped_adapters import ShippedAdapter
from tests.apps.ios_bundles import (
    FORMATS,
    MODULE,
    STATIC,
    bundle_of,
    caller_methods,
    decoder_manifest,
    module_manifest,
)
from tests.apps.swift_toolchain import Swift

PACKAGES = "/usr/libexec/swift/bin/swift-package"
ADAPTERS = [
    ShippedAdapter(name=name, digest="0" * 64, ranks=[4], modules=["model.layers.0.self_attn.q_proj"], bytes=512)
    for name in ("pirate", "poet_2")
]
ODD = '"; fatalError() // \\(1) \u2028 \U0001f600'
KITS = {
    **{f"{kind} decoder": decoder_manifest(kind) for kind in FORMATS},
    **{f"{kind} module": module_manifest(kind, MODULE) for kind in FORMATS},
    **{
        f"{kind}, held caches": decoder_manifest(kind, methods=caller_methods())
        for kind in FORMATS
        if kind != "pte-cpu"
    },
    **{
        f"{kind}, adapters": decoder_manifest(kind, methods=methods, adapters=ADAPTERS)
        for kind, methods in (("mlpackage", STATIC), ("aimodel", STATIC), ("pte", caller_methods()))
    },
    "odd names": decoder_manifest("mlpackage", name=ODD, recipe={"name": ODD}),
}


def _said(manifest: Manifest, swift: Swift, folder: Path, own: bool = False) -> str:
    """The compiler's messages about a package, its bench app and its sample; ``own``: with edgec's engine."""
    bundle = bundle_of(manifest, folder / "bundle")
    if own:
        (bundle.path / manifest.artifact).write_bytes(b"EdgecLinear")
    package = swift_package(bundle)
    write_package(package, folder / "kit")
    module, headers = package.module, [folder / "kit" / "Sources" / f"{package.module}Engine" / "include"] * own
    said = swift.compile(module, sorted((folder / "kit" / "Sources" / module).glob("*.swift")), headers)
    for name, where in (("EdgecBench", "Bench"), ("EdgecChat", "Sample")):
        app = sorted((folder / "kit" / where).rglob("*.swift"))
        said += swift.compile(name, app, headers) if app else ""
    return said


def _sweep(kits: Iterable[str], first: str) -> list[Any]:
    """All kits, of which CI compiles the first."""
    return [kit if kit == first else pytest.param(kit, marks=pytest.mark.slow) for kit in kits]


@pytest.mark.slow
@pytest.mark.parametrize("kit", _sweep(KITS, "mlpackage decoder"))
def test_a_kit_compiles_without_a_word(kit: str, swift: Swift, swift_folder: Path) -> None:
    assert _said(KITS[kit], swift, swift_folder) == ""


@pytest.mark.long
@pytest.mark.parametrize("kit", _sweep(["pte-cpu decoder", "pte-cpu module", "odd names"], "pte-cpu decoder"))
def test_a_kit_with_the_engine_compiles_without_a_word(kit: str, swift: Swift, swift_folder: Path) -> None:
    odd = {"name": ODD, "recipe": {"name": ODD}, "schemas": ["answer-kind", "class", "none", "some", "init"]}
    manifest = decoder_manifest("pte-cpu", **odd) if kit == "odd names" else KITS[kit]
    assert _said(manifest, swift, swift_folder, own=True) == ""


@pytest.mark.slow
def test_a_kit_with_an_asset_pack_compiles(swift: Swift, swift_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_facts, "ASSET_PACK_BYTES", 100)
    assert _said(decoder_manifest("mlpackage"), swift, swift_folder) == ""


@pytest.mark.slow
@pytest.mark.parametrize("kit", [*FORMATS, "odd names"])
def test_swiftpm_reads_the_package(kit: str, swift: Swift, swift_folder: Path) -> None:
    package = swift_package(bundle_of(KITS.get(kit) or KITS[f"{kit} decoder"], swift_folder / "bundle"))
    write_package(package, swift_folder / "kit")
    done = swift.run([PACKAGES, "--disable-sandbox", "--package-path", f"{swift_folder.name}/kit", "dump-package"])
    assert done.returncode == 0 and done.stderr == ""
    read = json.loads(done.stdout)
    (target,) = read["targets"]
    assert (read["name"], target["name"]) == (package.module, package.module)
    assert (read["swiftLanguageVersions"], read["toolsVersion"]["_version"]) == (["6"], "6.0.0")
    assert [resource["path"] for resource in target["resources"]] == ["Resources/Model.edgec"]
    wanted = ["executorch"] * kit.startswith("pte") + ["swift-transformers"]
    assert [each["sourceControl"][0]["identity"] for each in read["dependencies"]] == wanted


# Errors of types are reported before the rules on isolation are checked: a source for each.
WRONG = {
    "mach_task_self_' is not concurrency-safe": "func own() -> mach_port_t { mach_task_self_ }",
    "sending 'self.box' risks causing data races": """
        final class Box { var value = 0; func change() async { value += 1 } }
        actor Owner { let box = Box(); func change() async { await box.change() } }
    """,
    "warning: variable 'count' was never mutated": "func three() -> Int { var count = 3; return count }",
}


@pytest.mark.slow
@pytest.mark.parametrize("said", WRONG)
def test_the_check_sees_what_is_wrong(said: str, swift: Swift, swift_folder: Path) -> None:
    (swift_folder / "Wrong.swift").write_text(WRONG[said])
    assert said in swift.compile("Wrong", [swift_folder / "Wrong.swift"])
