"""The bench app of a bundle: sources from ``edgec embed``, built by Xcode here or beforehand on another machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgec.devices.apple.xcrun import call, has_xcode, no_xcode
from edgec.errors import InputError, ToolError

if TYPE_CHECKING:
    from edgec.apps.embed.written_package import AppPackage
    from edgec.bundle.folder import Bundle

BUILD_S: Final = 3600.0
GIVEN: Final = "EDGEC_BENCH_APP"
TEAM: Final = "EDGEC_TEAM"


@dataclass(frozen=True)
class BenchApp:
    """A built app on disk, and the identifier under which it is installed."""

    path: Path
    app_id: str


def package_of(bundle: Bundle) -> AppPackage:
    """The Swift package of a bundle, not written yet.

    Raises:
        InputError: E460 the bundle is not for iOS, E462 to E465 no app can be made of it.
    """
    from edgec.apps.embed.swift_package import swift_package

    return swift_package(bundle)


def app_id(package: AppPackage) -> str:
    """The bundle identifier of the app in the package's Xcode project."""
    return f"org.example.{package.module}.bench"


def bench_app(package: AppPackage, sdk: str, folder: Path, where: str) -> BenchApp:
    """The bench app: the one that ``EDGEC_BENCH_APP`` names, else built here.

    Args:
        package: from ``package_of``.
        sdk: ``iphoneos`` or ``iphonesimulator``.
        folder: an empty one for the sources and the build.
        where: the device, for errors.

    Raises:
        ToolError: E552 no Xcode, E557 the build failed.
        InputError: E557, the given app does not exist.
    """
    given = os.environ.get(GIVEN)
    if given:
        if not Path(given).exists():
            raise InputError("The bench app does not exist.", given, f"{GIVEN} names it", f"correct {GIVEN}", "E557")
        return BenchApp(Path(given), app_id(package))
    if not has_xcode():
        raise no_xcode(where)
    return BenchApp(_built(package, sdk, folder, where), app_id(package))


def _built(package: AppPackage, sdk: str, folder: Path, where: str) -> Path:
    from edgec.apps.embed.written_package import write_package
    from edgec.apps.embed.xcode_project import BENCH

    write_package(package, folder / "package")
    platform = {"iphoneos": "generic/platform=iOS", "iphonesimulator": "generic/platform=iOS Simulator"}[sdk]
    words = ["xcodebuild", "-project", str(folder / "package" / "Bench" / f"{BENCH}.xcodeproj"), "-scheme", BENCH]
    words += ["-configuration", "Release", "-destination", platform, "-derivedDataPath", str(folder / "build")]
    team = os.environ.get(TEAM)
    words += ["-allowProvisioningUpdates", "build", *([f"DEVELOPMENT_TEAM={team}"] if team else [])]
    done = call(words, where, BUILD_S)
    app = folder / "build" / "Build" / "Products" / f"Release-{sdk}" / f"{BENCH}.app"
    if done.returncode != 0 or not app.exists():
        errors = [line for line in done.stdout.splitlines() + done.stderr.splitlines() if "error:" in line]
        raise ToolError(
            "Xcode cannot build the bench app.",
            where=str(folder / "package"),
            why="\n".join(line[:400] for line in errors[:5]) or f"exit status {done.returncode}",
            fix=f"sign in to Xcode and set {TEAM} to your team's identifier, or build the app in Xcode and set {GIVEN}",
            code="E557",
        )
    return app
