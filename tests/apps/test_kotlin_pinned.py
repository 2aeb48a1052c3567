"""The generated Kotlin with a pinned key: newer signed bundles are loaded, and all others refused."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgec.apps.embed import app_facts, kotlin_text
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.written_package import write_package
from edgec.bundle.folder import SIGNATURE, open_bundle
from edgec.bundle.signature import sign_bundle
from edgec.bundle.signing_keys import PublicKey
from tests.apps.android_bundles import CPU
from tests.apps.ios_bundles import target
from tests.apps.kotlin_bundles import golden_vectors, real_bundle
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled
from tests.apps.pinned_apps import Phone, Pinned, newer_than
from tests.apps.pinned_cases import KEY, PinnedCases, assert_shipped_whole
from tests.apps.test_kotlin_download import ANDROID, SOURCES
from tests.bundle.signatures import public_pem, write_keys

pytestmark = [pytest.mark.slow, WITH_KOTLIN]

PACKAGE = kotlin_text.package_name(CPU.name)
_READS = """
package PACKAGE
fun main(arguments: Array<String>) {
    val read = runCatching { SignatureFile.read(java.io.File(arguments[0])).files.size }
    println(read.getOrElse { (it as SignatureRefused).code })
}
"""


def _own(folder: Path, key: str) -> Path:
    own = real_bundle(folder / "sample.edgec", CPU, golden_vectors())
    sign_bundle(own, write_keys(folder, key)[0])
    return own


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Pinned:
    folder = tmp_path_factory.mktemp("pinned")
    own = _own(folder, "own")
    newer = newer_than(own, folder / "newer" / "newer.edgec")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_facts, "load_target", target)
        write_package(gradle_modules(open_bundle(own), key=KEY), folder / "kit")
    main = folder / "Main.kt"
    main.write_text((STAND_INS / "PinnedMain.kt.txt").read_text().replace("PACKAGE", PACKAGE))
    sources = [*sorted(STAND_INS.rglob("*.kt")), *sorted((folder / "kit/model").rglob("*.kt")), main]
    classes = compiled(sources, folder / "classes")
    (folder / "phone").mkdir()
    line = ["java", "-XX:TieredStopAtLevel=1", "-cp", classes, f"{PACKAGE}.MainKt"]
    return Pinned(own, newer, [*line, str(folder / "kit/model/src/main/assets/model.edgec"), str(folder / "phone")])


@pytest.fixture(scope="module")
def phone(pinned: Pinned) -> Iterator[Phone]:
    with pinned.running() as started:
        yield started


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


class TestKotlin(PinnedCases):
    """The cases, in Kotlin."""

    def test_the_package_holds_the_signed_bundle_and_loads_it(self, pinned: Pinned, phone: Phone) -> None:
        assert_shipped_whole(pinned.own, Path(pinned.line[-2]))
        assert phone.load("own").kind == "done"


@pytest.mark.parametrize("curve", ["P-384", "P-521"])
def test_other_curves(curve: str, tmp_path: Path) -> None:
    own = _own(tmp_path, curve)
    write_package(gradle_modules(open_bundle(own), key=PublicKey(public_pem(curve))), tmp_path / "kit")
    (tmp_path / "Main.kt").write_text(_READS.replace("PACKAGE", PACKAGE))
    sources = [next((tmp_path / "kit").rglob(f"{name}.kt")) for name in SOURCES]
    classes = compiled([*sources, *ANDROID, tmp_path / "Main.kt"], tmp_path / "classes")

    def said() -> str:
        line = ["java", "-XX:TieredStopAtLevel=1", "-cp", classes, f"{PACKAGE}.MainKt", str(own)]
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()

    assert said() == str(len(open_bundle(own).manifest.files) + 1)
    raw = (own / SIGNATURE).read_text()
    at = raw.index('"sig"') + 40
    (own / SIGNATURE).write_text(raw[:at] + ("A" if raw[at] != "A" else "B") + raw[at + 1 :])
    assert said() == "E603"
