"""The output of ``edgec embed`` and ``edgec runner build --aar``: a summary, or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from edgec.apps.embed.embed import Embedded
from edgec.apps.embed.engine_archive import build_archive

_CHECKED = {
    "ios": "edgec's tests compile such sources on Linux over stand-ins; no Mac has compiled them",
    "android": "the Kotlin and C++ of such modules were compiled without Android; no Gradle build was run",
}


def print_embedded(embedded: Embedded, as_json: bool) -> None:
    """Print where the package is, what it needs, and what nobody has checked yet."""
    if as_json:
        print(json.dumps(embedded.to_json(), indent=1))
        return
    for line in _lines(embedded):
        print(line)


def _lines(embedded: Embedded) -> Iterator[str]:
    package = embedded.package
    yield f"package  {embedded.path}"
    yield f"module   {package.module}, {package.format}, {package.platform} {package.minimum_os} or newer"
    yield f"memory   {package.needed_bytes / 1e6:,.1f} MB for weights and states (estimated)"
    if package.asset_pack:
        yield "delivery too large for the app itself: the bundle is an asset pack, see README.md"
    if package.entitled:
        yield f"rights   Config/{package.module}.entitlements"
    if package.key_sha256 is not None:
        yield f"key      {package.key_sha256[:16]}… (sha256): other bundles that it signed are loaded, too"
    yield f"checked  {_CHECKED[package.platform]}"


def build_aar(package: Path, out: Path | None, executorch: Path | None, as_json: bool) -> None:
    """Compile the engine of an Android package into an archive, and print where it is.

    Raises:
        InputError: E577, E461, E121 or E122.
        ToolError: E576 or E578.
    """
    made = build_archive(package, out, executorch, lambda text: print(text, file=sys.stderr))
    if as_json:
        print(json.dumps({"aar": str(made.path), "library": made.library, "library_bytes": made.library_bytes}))
        return
    print(f"aar      {made.path}")
    print(f"library  {made.library}, {made.library_bytes:,} bytes")
    task = ":bench:assembleRelease" if (package / "bench").is_dir() else ":model:assembleRelease"
    print(f"use      ./gradlew -PengineArchive={made.path.resolve()} {task}")
