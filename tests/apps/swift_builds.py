"""Generated Swift packages built by SwiftPM on Linux, with local packages in the place of those that it would fetch."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.apps.swift_toolchain import WORK, Swift

BUILD = "/usr/libexec/swift/bin/swift-build"
_FETCHED = re.compile(r'\.package\(url: "[^"]*/([\w-]+)\.git", \w+: [\w".]+\)')
_PRODUCTS = {
    "executorch": ("executorch", "backend_xnnpack", "kernels_optimized", "kernels_quantized"),
    "swift-transformers": ("Transformers",),
}
_LIBRARIES = ("", "_backend_xnnpack", "_kernels_optimized", "_kernels_quantized", "_threadpool")
_STAND_INS = (
    *("ExecuTorch", "CoreML", "CryptoKit", "os", "Tokenizers", "Hub", "Darwin"),
    *("CoreGraphics", "ImageIO", "Accelerate"),
)
# Every file of a package for Apple's systems sees Darwin, which is a stand-in here.
# Swift 6.0's Observation for Linux refers to a function of the runtime that no library exports, for fatal errors.
_LENIENT = ("-Xlinker", "--unresolved-symbols=ignore-in-shared-libs")
_FLAGS = ("-I", f"{WORK}/modules", "-Xfrontend", "-import-module", "-Xfrontend", "Darwin")


@dataclass(frozen=True)
class Built:
    """A program that SwiftPM built, with the object files of the package's engine."""

    swift: Swift
    folder: Path

    @property
    def program(self) -> str:
        """The program's path as the compiler's folder has it."""
        return f"{WORK}/{self.folder.name}/driver/.build/debug/Driver"

    def objects(self, target: str) -> list[Path]:
        """A target's object files."""
        return sorted((self.folder / "driver" / ".build" / "debug").resolve().glob(f"{target}.build/**/*.o"))


def build(
    swift: Swift, folder: Path, module: str, main: str, beside: Sequence[Path] = (), *, engine: bool = True
) -> Built:
    """Build the package in ``folder/kit`` with a program.

    Args:
        swift: the compiler, with the stand-ins' modules.
        folder: inside what the compiler sees.
        module: the package's module.
        main: source of the program.
        beside: further sources of it, such as the sample's.
        engine: the package has edgec's engine, which compiles against the installed ExecuTorch.
    """
    kit = folder / "kit"
    if engine:
        _place_executorch(folder, kit / "Sources" / f"{module}Engine" / "headers")
    manifest = kit / "Package.swift"
    text, count = _FETCHED.subn(r'.package(path: "../\1")', manifest.read_text())
    assert count == len(_PRODUCTS)
    manifest.write_text(text)
    for name, products in _PRODUCTS.items():
        _package(folder / name, name, products)
    _driver(folder / "driver", module, main, _linked(f"{WORK}/{folder.name}/lib") if engine else [])
    for source in beside:
        shutil.copy(source, folder / "driver" / "Sources" / "Driver")
    return build_again(swift, folder)


def _place_executorch(folder: Path, headers: Path) -> None:
    """Put the installed ExecuTorch's libraries into the folder, and its headers where the package's README says."""
    spec = find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations
    installed = Path(next(iter(spec.submodule_search_locations)))
    shutil.copytree(installed / "include", headers)
    shutil.copytree(installed / "lib", folder / "lib")


def build_again(swift: Swift, folder: Path) -> Built:
    """Build what changed since ``build``."""
    where = ["--disable-sandbox", "--package-path", f"{folder.name}/driver", "-j", "2"]
    done = swift.run([BUILD, *where, *(word for flag in _FLAGS for word in ("-Xswiftc", flag))])
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "warning:" not in said, said[-4000:]
    return Built(swift, folder)


def _package(folder: Path, name: str, products: Sequence[str]) -> None:
    target = f"{name.replace('-', '_')}_stand_in"
    (folder / "Sources" / target).mkdir(parents=True)
    (folder / "Sources" / target / "Empty.swift").write_text("")
    listed = ", ".join(f'.library(name: "{product}", targets: ["{target}"])' for product in products)
    _manifest(folder, f'name: "{name}", products: [{listed}], targets: [.target(name: "{target}")]')


def _linked(libraries: str) -> list[str]:
    """The flags that link ExecuTorch's libraries in a folder."""
    flags = [f"-L{libraries}", "-Xlinker", "-rpath", "-Xlinker", libraries, "-Xlinker", "--no-as-needed"]
    return [*flags, *(f"-lexecutorch{name}" for name in _LIBRARIES)]


def _driver(folder: Path, module: str, main: str, linked: Sequence[str]) -> None:
    (folder / "Sources" / "Driver").mkdir(parents=True)
    (folder / "Sources" / "Driver" / "main.swift").write_text(main)
    flags = [*_LENIENT, *linked, *(f"{WORK}/modules/{name}.o" for name in _STAND_INS)]
    listed = ", ".join(f'"{flag}"' for flag in flags)
    target = (
        f'.executableTarget(name: "Driver", dependencies: [.product(name: "{module}", package: "kit")], '
        f"linkerSettings: [.unsafeFlags([{listed}])])"
    )
    _manifest(folder, f'name: "driver", dependencies: [.package(path: "../kit")], targets: [{target}]')


def _manifest(folder: Path, fields: str) -> None:
    text = f"// swift-tools-version: 6.0\nimport PackageDescription\n\nlet package = Package({fields})\n"
    (folder / "Package.swift").write_text(text)
