"""``edgec split``: a bundle is cut into parts, or joined from them, and what was written is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgec.bundle.hub.located import bundle_folder
from edgec.bundle.join import join_parts
from edgec.bundle.parts_list import PARTS_LIST, PartsList
from edgec.bundle.split import split_bundle
from edgec.errors import InputError

_MB = 1_000_000


def split_and_print(bundle: Path, out: Path | None, part_mb: int, digest: str | None, as_json: bool) -> None:
    """Cut a bundle into parts and print where they are.

    Raises:
        InputError: as `split_bundle`; E100 ``digest`` without a join. Nothing was written.
    """
    if digest is not None:
        raise InputError("--digest is for --join", "--digest", fix="omit it, or add --join", code="E100")
    bundle = bundle_folder(bundle)
    folder = out or _beside(bundle, ".edgec", ".parts")
    parts = split_bundle(bundle, folder, part_mb * _MB)
    if as_json:
        _print_json(parts, parts_folder=folder)
        return
    print(f"parts    {len(parts.parts)} of at most {part_mb} MB, {parts.bytes:,} bytes: {folder}")
    print(f"list     {folder / PARTS_LIST}, {len(parts.files)} files")
    print(f"digest   {parts.digest}")


def join_and_print(folder: Path, out: Path | None, digest: str | None, as_json: bool) -> None:
    """Join parts into a bundle and print where it is.

    Raises:
        InputError: as `join_parts`; what was joined so far stays for the next call.
    """
    bundle = out or _beside(folder, ".parts", ".edgec")
    parts = join_parts(folder, bundle, digest)
    if as_json:
        _print_json(parts, bundle=bundle)
        return
    print(f"bundle   {bundle}, {len(parts.files)} files, {parts.bytes:,} bytes: sizes and sha256 as listed")
    print(f"digest   {parts.digest}{'' if digest is None else ', as given'}")


def _beside(path: Path, suffix: str, other: str) -> Path:
    """The name with another suffix, in the current folder."""
    return Path(path.resolve().name.removesuffix(suffix) + other)


def _print_json(parts: PartsList, **where: Path) -> None:
    facts: dict[str, Any] = {name: str(path) for name, path in where.items()}
    facts |= {"name": parts.name, "digest": parts.digest, "bytes": parts.bytes}
    print(json.dumps({**facts, "files": len(parts.files), "parts": len(parts.parts)}))
