"""The list of a bundle's parts, ``parts.json``: which files, one after the other, were cut into which parts.

A list may come from anywhere, so it is read under limits, and refused where a path leaves the bundle, a name comes
twice or sizes do not add up. Kotlin's and Swift's ``PartsList`` of the app packages keep the same rules.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field, ValidationError

from edgec.bundle.checked_files import bad_paths
from edgec.bundle.folder import MANIFEST
from edgec.bundle.limited_json import JsonKind, first_fault, limited_bytes, parse_json
from edgec.bundle.manifest import FileInfo
from edgec.bundle.part import JsonCount, JsonPart, Sha256
from edgec.errors import InputError

PARTS_LIST = "parts.json"
FORMAT_VERSION = 1
MAX_PART_BYTES = 100_000_000
MAX_COUNT = 10_000
"""The most files, and the most parts, of one list."""
_AGAIN = "get the parts again from where they were intact, or split the bundle again"
_KIND = JsonKind("The list of parts cannot be read.", _AGAIN, "E681", max_bytes=8 << 20)


class PartInfo(JsonPart):
    """A part: a plain file name beside the list, its bytes and its sha256."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    bytes: Annotated[int, Field(ge=1, le=MAX_PART_BYTES)]
    sha256: Sha256


class PartsList(JsonPart):
    """What ``parts.json`` says.

    ``name``, ``digest``: the manifest's; ``bytes``: of all files, and of all parts; ``files``: in the order in which
    they follow each other, the manifest first.
    """

    format_version: int = FORMAT_VERSION
    name: Annotated[str, Field(max_length=1000)]
    digest: Sha256
    bytes: JsonCount
    files: Annotated[list[FileInfo], Field(min_length=1, max_length=MAX_COUNT)]
    parts: Annotated[list[PartInfo], Field(min_length=1, max_length=MAX_COUNT)]

    def __repr__(self) -> str:
        return f"<edgec PartsList {self.name}: {len(self.files)} files in {len(self.parts)} parts>"


def parts_text(parts: PartsList) -> bytes:
    """The text of a list, as `split_bundle` writes it."""
    return (json.dumps(parts.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n").encode()


def read_parts_list(folder: Path) -> PartsList:
    """Read and check the list of a folder of parts; the parts themselves are not opened.

    Raises:
        InputError: E680 no parts.json here, and as `parse_parts_list`; no other exception, whatever the folder holds.
    """
    path = folder / PARTS_LIST
    if not os.path.lexists(path):
        fix = "give the path of a folder that `edgec split` wrote"
        raise InputError(f"Not a folder of parts: no {PARTS_LIST} here.", str(folder), fix=fix, code="E680")
    try:
        raw = limited_bytes(path, _KIND.max_bytes, follow=False)
    except (OSError, ValueError) as error:
        raise _KIND.refusal(path, str(error)) from error
    return parse_parts_list(raw, path)


def parse_parts_list(raw: bytes, path: Path) -> PartsList:
    """Check a list's text, of which nothing is trusted.

    Args:
        raw: the text; of at most 8 MiB where it was read by `read_parts_list`.
        path: where it came from, for messages.

    Raises:
        InputError: E681 unreadable, E682 of another format version, E683 a path or name that cannot be, E684 sizes that
            do not add up.
    """
    try:
        fields = parse_json(raw)
        _check_version(fields, path)
        parts = PartsList.model_validate(fields)
    except ValidationError as error:
        raise _KIND.refusal(path, first_fault(error)) from error
    except (ValueError, RecursionError) as error:
        raise _KIND.refusal(path, str(error)) from error
    check_parts_list(parts, path)
    return parts


def _check_version(fields: object, path: Path) -> None:
    version = fields.get("format_version") if isinstance(fields, dict) else None
    if type(version) is not int:
        raise ValueError("it is not an object with a whole-number format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"The list of parts has format version {version}; this edgec reads version {FORMAT_VERSION}.",
            where=str(path),
            fix="install the edgec here that split it, or split the bundle again with this edgec",
            code="E682",
        )


def check_parts_list(parts: PartsList, path: Path) -> None:
    """Check what a list says of itself: names and sizes.

    Raises:
        InputError: E683 or E684.
    """
    if why := next(_bad_names(parts), None):
        raise InputError("The list of parts names a file that cannot be.", str(path), why, _AGAIN, "E683")
    for kind, found in (("files", parts.files), ("parts", parts.parts)):
        total = sum(each.bytes for each in found)
        if total != parts.bytes:
            why = f"the {kind} add up to {total:,} bytes, the list says {parts.bytes:,}"
            raise InputError("The sizes in the list of parts do not add up.", str(path), why, _AGAIN, "E684")


def _bad_names(parts: PartsList) -> Iterator[str]:
    names = [file.path for file in parts.files]
    yield from (f"{fault.path!r}: {fault.why}" for fault in bad_paths(names))
    if names[0] != MANIFEST:
        yield f"{names[0]!r} comes first, instead of {MANIFEST}"
    folders = {parent.as_posix().casefold() for name in names for parent in PurePosixPath(name).parents}
    yield from (f"{name!r} is a file and a folder" for name in names if name.casefold() in folders)
    yield from (
        f"{fault.path!r}: {fault.why}" for fault in bad_paths([part.name for part in parts.parts], [PARTS_LIST])
    )
