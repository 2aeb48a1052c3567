"""The generated Swift downloader, compiled and run on Linux against a loopback server that fails in many ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.apps.embed import app_facts
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import write_package
from edgec.bundle.folder import open_bundle
from tests.apps.download_apps import Made, in_parts
from tests.apps.download_cases import DownloadCases
from tests.apps.full_disk_cases import FullDiskCases
from tests.apps.ios_bundles import target
from tests.apps.swift_bundles import for_linux, write_good
from tests.apps.swift_toolchain import WORK, Swift, inside

pytestmark = pytest.mark.slow

MAIN = Path(__file__).parent / "swift_download" / "Main.swift"


@pytest.fixture(scope="module")
def made(swift: Swift) -> Made:
    folder = swift.work / "download"
    folder.mkdir()
    bundle, parts = in_parts(write_good(folder / "sample.edgec", "dynamic"), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_facts, "load_target", target)
        package = swift_package(open_bundle(bundle))
    write_package(package, folder / "kit")
    sources = folder / "kit" / "Sources" / package.module
    for_linux(sources)
    (folder / "Main.swift").write_text(MAIN.read_text())
    assert swift.compile(package.module, [*sources.glob("*.swift"), folder / "Main.swift"]) == ""
    names = (package.module, "ExecuTorch", "CryptoKit", "os", "Tokenizers", "Hub", "Darwin")
    linked = swift.run(["swiftc", *(f"modules/{name}.o" for name in names), "-o", "download/run"])
    assert linked.returncode == 0, linked.stderr

    def seen(path: Path) -> str:
        return f"{WORK}/{path.relative_to(swift.work)}"

    return Made(bundle, parts, inside(swift.work, [f"{WORK}/download/run"]), seen)


@pytest.fixture
def place(swift_folder: Path) -> Path:
    return swift_folder


class TestSwift(DownloadCases):
    """The cases, in Swift."""


class TestSwiftOnFullDisks(FullDiskCases):
    """The cases of full disks, in Swift."""
