"""The generated Swift with a pinned key, compiled and run on Linux: newer signed bundles are loaded, others refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgec.apps.embed import app_facts
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import write_package
from edgec.bundle.folder import SIGNATURE, open_bundle
from edgec.bundle.signature import sign_bundle
from edgec.bundle.signing_keys import PublicKey
from tests.apps.ios_bundles import target
from tests.apps.pinned_apps import Phone, Pinned, newer_than
from tests.apps.pinned_cases import PinnedCases, assert_shipped_whole
from tests.apps.swift_bundles import for_linux, write_good
from tests.apps.swift_toolchain import WORK, Swift, inside
from tests.bundle.signatures import public_pem, write_keys

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
STAND_INS = ("ExecuTorch", "CryptoKit", "os", "Tokenizers", "Hub", "Darwin")


def _made(swift: Swift, name: str, key: str) -> Pinned:
    """An app with a pinned key, and its bundles, in a folder that the compiler sees."""
    folder = swift.work / name
    folder.mkdir()
    own = write_good(folder / "sample.edgec", "dynamic")
    sign_bundle(own, write_keys(folder, key)[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_facts, "load_target", target)
        package = swift_package(open_bundle(own), PublicKey(public_pem(key)))
    write_package(package, folder / "kit")
    sources = folder / "kit" / "Sources" / package.module
    for_linux(sources)
    main = [HERE / "swift_pinned" / "Main.swift", HERE / "swift_behaviour" / "ScriptedModel.swift"]
    driver = [Path(shutil.copy(path, folder / path.name)) for path in main]
    assert swift.compile(package.module, [*sources.glob("*.swift"), *driver]) == ""
    linked = swift.run(["swiftc", *(f"modules/{each}.o" for each in (package.module, *STAND_INS)), "-o", f"{name}/run"])
    assert linked.returncode == 0, linked.stderr

    def seen(path: Path) -> str:
        return f"{WORK}/{path.relative_to(swift.work)}"

    line = inside(swift.work, ["env", f"HOME={WORK}/{name}/home", f"{WORK}/{name}/run"])
    return Pinned(own, newer_than(own, folder / "newer" / "newer.edgec"), line, seen)


@pytest.fixture(scope="module")
def pinned(swift: Swift) -> Pinned:
    return _made(swift, "pinned", "own")


@pytest.fixture(scope="module")
def phone(pinned: Pinned) -> Iterator[Phone]:
    with pinned.running() as started:
        yield started


@pytest.fixture
def place(swift_folder: Path) -> Path:
    return swift_folder


class TestSwift(PinnedCases):
    """The cases, in Swift."""

    def test_the_package_holds_the_signed_bundle(self, pinned: Pinned) -> None:
        assert_shipped_whole(pinned.own, next((pinned.own.parent / "kit").rglob("Model.edgec")))


@pytest.mark.parametrize("curve", ["P-384", "P-521"])
def test_other_curves(curve: str, swift: Swift) -> None:
    pinned = _made(swift, curve, curve)
    sign_bundle(pinned.newer, write_keys(pinned.own.parent, curve)[0], force=True)
    with pinned.running() as phone:
        assert phone.load(pinned.newer).kind == "done"
        raw = (pinned.newer / SIGNATURE).read_text()
        at = raw.index('"sig"') + 40
        (pinned.newer / SIGNATURE).write_text(raw[:at] + ("A" if raw[at] != "A" else "B") + raw[at + 1 :])
        assert phone.load(pinned.newer).code == "E603"
