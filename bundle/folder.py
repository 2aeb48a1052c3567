"""The bundle NAME.edgec/: written whole, and refused when a single bit of it is not what its manifest says."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from edgec.bundle.atomic import NameTaken, existing_parent, free_bytes, new_folder, typed_os_errors
from edgec.bundle.canonical import REPORT, canonical_json, seal, text_digest
from edgec.bundle.checked_files import bad_paths, copy_hashed, first_difference, one_name, path_fault, refuse_if
from edgec.bundle.limited_json import first_fault, limited_bytes, parse_json
from edgec.bundle.manifest import SCHEMA_VERSION, FileInfo, Manifest
from edgec.bundle.replaceable import check_replaceable, listed_names
from edgec.bundle.schemas import paths_of_schemas
from edgec.errors import InputError

MANIFEST = "manifest.json"
SIGNATURE = "model.sig"
_MAX_MANIFEST_BYTES = 64 << 20
_EXPORT_AGAIN = "copy the bundle again from where it was intact, or export the model again"
_CODES = {"path": "E137", "missing": "E134", "irregular": "E134", "content": "E135", "unlisted": "E136"}


@dataclass(frozen=True, repr=False)
class Bundle:
    """A bundle on disk whose manifest was checked; ``files_checked``: every file's sha256 was checked too."""

    path: Path
    manifest: Manifest
    files_checked: bool

    def __repr__(self) -> str:
        return f"<edgec Bundle {str(self.path)!r}: {self.manifest.recipe_name}, {self.manifest.target}>"

    @property
    def artifact_path(self) -> Path:
        """The compiled program: a file, or the folder of a Core ML or Core AI package."""
        return self.path / self.manifest.artifact

    @property
    def artifact_files(self) -> list[Path]:
        """The files of the compiled program: one, or those of its folder."""
        artifact = self.artifact_path
        return sorted(path for path in (artifact, *artifact.rglob("*")) if path.is_file())

    @property
    def tokenizer_dir(self) -> Path | None:
        """The tokenizer's folder, or None for models without one."""
        listed = any(file.path.startswith("tokenizer/") for file in self.manifest.files)
        return self.path / "tokenizer" if listed else None

    @property
    def generation_config_path(self) -> Path | None:
        """The generation_config.json of transformers, or None."""
        return self._file("generation_config.json")

    @property
    def golden_path(self) -> Path | None:
        """The file of golden vectors, or None."""
        return self._file("golden.json")

    @property
    def report_path(self) -> Path | None:
        """The HTML report, or None."""
        return self._file(REPORT)

    def _file(self, name: str) -> Path | None:
        return self.path / name if any(file.path == name for file in self.manifest.files) else None


def check_output(path: Path, force: bool, needed_bytes: int = 0) -> None:
    """Refuse an output that could not be written, before any work is done.

    Args:
        path: the bundle's own path.
        force: an existing bundle may be replaced.
        needed_bytes: an estimate of the bundle's size in bytes; old and new exist side by side for a moment.

    Raises:
        InputError: E120 it exists, E121 unwritable, E122 too little space, E123 ``force`` would delete something else
            than a bundle, or a file that no bundle lists.
    """
    _check_existing(path, force)
    _check_writable(existing_parent(path))
    free = free_bytes(path)
    if free < needed_bytes:
        raise InputError(
            "The disk is too full for this bundle.",
            where=str(path),
            why=f"about {needed_bytes:,} bytes are needed (estimated), {free:,} are free (measured)",
            fix="free some space, or choose another disk with --out",
            code="E122",
        )


def _check_existing(path: Path, force: bool) -> None:
    if os.path.lexists(path) and not force:
        raise existing_output(path)
    check_replaceable(path, _own_names, "bundle")


def _own_names(folder: Path) -> frozenset[str] | None:
    """The files of a bundle, damaged or not, by its manifest; None where edgec's manifest is missing."""
    names = listed_names(folder / MANIFEST, _MAX_MANIFEST_BYTES)
    return None if names is None else names | {MANIFEST, SIGNATURE}


def existing_output(path: Path) -> InputError:
    """The error for an output that exists and that ``--force`` may replace, E120."""
    fix = "add --force to replace it, or name another --out"
    return InputError("The output exists already.", where=str(path), fix=fix, code="E120")


def _check_writable(parent: Path) -> None:
    probe = parent / f".edgec-probe-{os.getpid()}"
    with typed_os_errors(parent):
        probe.mkdir()
        probe.rmdir()


def write_bundle(
    path: Path, manifest_without_files: Manifest, files: Mapping[str, bytes | Path], force: bool = False
) -> Manifest:
    """Write a bundle, whole or not at all.

    Args:
        path: the bundle's own folder.
        manifest_without_files: the manifest; its ``files`` and ``digest`` are filled in here.
        files: contents, or a file to copy, by path inside the bundle (forward slashes).
        force: replace an existing bundle.

    Returns:
        The manifest as it stands in the bundle (numbers that JSON lacks have become null).

    Raises:
        InputError: see `check_output`; E122 also when the disk fills up on the way; E923 two names are one on a Mac.
        ValueError: a path inside the bundle is not allowed.
    """
    check_output(path, force, sum(_size(content) for content in files.values()))
    for name in files:
        if name in (MANIFEST, SIGNATURE) or path_fault(name):
            raise ValueError(f"{name!r}: {path_fault(name) or 'reserved'}")
    _check_distinct(files, path)
    try:
        with new_folder(path, replace=force) as folder:
            with typed_os_errors(path):
                infos = [_write(folder, name, files[name]) for name in sorted(files)]
                manifest = seal(manifest_without_files.model_copy(update={"files": infos}))
                (folder / MANIFEST).write_bytes(canonical_json(manifest))
            return read_manifest(folder)
    except NameTaken as taken:
        raise existing_output(path) from taken


def _check_distinct(names: Iterable[str], path: Path) -> None:
    """Refuse names that are one on the disk of a Mac or an iPhone, where one file would replace the other."""
    seen = {one_name(name): name for name in (MANIFEST, SIGNATURE)}
    for name in names:
        other = seen.setdefault(one_name(name), name)
        if other != name:
            raise InputError(
                "Two files of the bundle would be one on a Mac's or an iPhone's disk.",
                where=str(path),
                why=f"{other!r} and {name!r} differ in case or in the form of an accent alone",
                fix="rename one of them where the model or its tokenizer lies",
                code="E923",
            )


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _write(folder: Path, name: str, content: bytes | Path) -> FileInfo:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    opened: IO[bytes] = io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")
    with opened as source, open(folder / name, "xb") as target:
        size, sha256 = copy_hashed(source, target)
    return FileInfo(path=name, bytes=size, sha256=sha256)


def open_bundle(path: Path, check_files: bool = True) -> Bundle:
    """Open a bundle, or refuse one that is damaged.

    Args:
        path: the bundle's folder.
        check_files: hash every file; without it only presence, kind and size are compared.

    Raises:
        InputError: E130 to E137; no other exception, whatever the folder holds.
    """
    manifest = read_manifest(path)
    with unreadable_as_error(path):
        difference = first_difference(path, manifest.files, skip=(MANIFEST, SIGNATURE), contents=check_files)
    refuse_if(difference, path, _CODES, _EXPORT_AGAIN)
    return Bundle(path, manifest, check_files)


def read_manifest(path: Path) -> Manifest:
    """Read a bundle's manifest and check everything about it that needs no other file.

    Raises:
        InputError: E130 not a bundle, E131 unreadable or not canonical, E132 wrong digest, E133 another schema version,
            E134 a part that is not listed, E137 a path that leaves the bundle.
    """
    raw = _manifest_bytes(path)
    try:
        fields = parse_json(raw)
        _check_schema_version(fields, path)
        manifest = Manifest.model_validate(fields)
        canonical = canonical_json(manifest)
    except ValidationError as error:
        raise _refusal("The manifest cannot be read.", path / MANIFEST, first_fault(error), "E131") from error
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise _refusal("The manifest cannot be read.", path / MANIFEST, str(error)[:200], "E131") from error
    if canonical != raw:
        why = "it is not the canonical text of what it says, so somebody or something changed it"
        raise _refusal("The manifest was altered.", path / MANIFEST, why, "E131")
    if text_digest(raw, manifest.digest) != manifest.digest:
        raise _refusal("The manifest was altered.", path / MANIFEST, "its sha256 is not its digest", "E132")
    _check_paths(manifest, path)
    return manifest


def _check_paths(manifest: Manifest, path: Path) -> None:
    """Refuse every path that leaves the bundle, and every part that the list of files lacks."""
    listed = [file.path for file in manifest.files]
    parts = [manifest.prefix.text, manifest.prefix.state] if manifest.prefix else []
    parts += paths_of_schemas(manifest.schemas)
    named = (bad_paths([name]) for name in (manifest.artifact, *parts))
    fault = next(chain(*named, bad_paths(listed, (MANIFEST, SIGNATURE))), None)
    refuse_if(fault, path, _CODES, "do not trust this bundle; export the model again")
    in_folder = manifest.format != "pte" and any(name.startswith(f"{manifest.artifact}/") for name in listed)
    missing = {*parts, *(() if in_folder else (manifest.artifact,))}.difference(listed)
    for name in sorted(missing):
        raise _refusal("The bundle lacks a file.", path, f"{name!r} is not listed", "E134")


@contextmanager
def unreadable_as_error(path: Path) -> Iterator[None]:
    """Turn what reading a bundle may raise into E130."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise _refusal("The bundle cannot be read.", path, str(error), "E130") from error


def require_bundle(path: Path) -> None:
    """Refuse a path that does not look like a bundle.

    Raises:
        InputError: E130.
    """
    with unreadable_as_error(path):
        if not path.is_dir() or not os.path.lexists(path / MANIFEST):
            what = f"Not an edgec bundle: no {MANIFEST} here."
            raise InputError(what, str(path), fix="give the path of a NAME.edgec folder", code="E130")


def _manifest_bytes(path: Path) -> bytes:
    require_bundle(path)
    with unreadable_as_error(path):
        try:
            return limited_bytes(path / MANIFEST, _MAX_MANIFEST_BYTES, follow=False)
        except ValueError as error:
            raise _refusal("The manifest cannot be read.", path / MANIFEST, str(error), "E131") from error


def _check_schema_version(fields: object, path: Path) -> None:
    version = fields.get("schema_version") if isinstance(fields, dict) else None
    if type(version) is not int:
        raise ValueError("it is not an object with a whole-number schema_version")
    if version == SCHEMA_VERSION:
        return
    newer = version > SCHEMA_VERSION
    raise InputError(
        f"The bundle's manifest has schema version {version}; this edgec reads version {SCHEMA_VERSION}.",
        where=str(path / MANIFEST),
        why="the bundle was written by a newer edgec" if newer else "the bundle is older than this edgec",
        fix="install a newer edgec here" if newer else "export the model again with this edgec",
        code="E133",
    )


def _refusal(what: str, where: Path, why: str, code: str) -> InputError:
    return InputError(what, str(where), why, _EXPORT_AGAIN, code)
