"""Signing a bundle and checking its signature, in the OpenSSF model-signing format: by a key, without a network.

The signed statement lists every other file of the bundle, the manifest among them, by its sha256. The library signs,
and checks the signature and every hash. What is here makes sure that it reads nothing unchecked (signature_file.py,
signing_keys.py), and that nothing lies in the folder which the statement does not name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from edgec.bundle.atomic import clean_siblings, typed_os_errors, write_file
from edgec.bundle.canonical import manifest_sha256
from edgec.bundle.checked_files import file_sha256, walk
from edgec.bundle.folder import MANIFEST, SIGNATURE, open_bundle, require_bundle, unreadable_as_error
from edgec.bundle.signature_file import SIGNATURE_KIND, Signature, read_signature
from edgec.bundle.signing_keys import PublicKey, read_private_key
from edgec.errors import InputError

_NAMED = 3
_FETCH = "do not use this bundle: get it again from whoever signed it; sign it again if you changed it yourself"


def check_signature(folder: Path, key: PublicKey) -> Signature:
    """Check that a bundle is, file by file, what the holder of a key signed.

    Args:
        folder: the bundle; every file of it is hashed.
        key: the public key, which came to you another way than the bundle did.

    Raises:
        InputError: E130 no bundle, E601 no signature, E602 no readable one, E603 not by this key, E604 a file or folder
            was changed, added, removed, renamed or linked.
    """
    require_bundle(folder)
    with unreadable_as_error(folder):
        _refuse_links(folder)
        signature = read_signature(folder)
        if signature.key != key.fingerprint:
            why = f"it names the key {signature.key[:16]}…, the one given is {key.fingerprint[:16]}… (sha256)"
            raise _foreign(folder, why)
        _check_by_library(folder, signature, key)
        _refuse_differences(folder, signature.files, contents=False)
    return signature


def _check_by_library(folder: Path, signature: Signature, key: PublicKey) -> None:
    from cryptography.exceptions import InvalidSignature
    from model_signing import verifying

    with TemporaryDirectory() as aside:
        public, plain = Path(aside, "public.pem"), Path(aside, SIGNATURE)
        public.write_bytes(key.pem)
        plain.write_text(signature.plain)
        config = verifying.Config().use_elliptic_key_verifier(public_key=public).set_hashing_config(_hashing())
        try:
            config.verify(os.path.realpath(folder), plain)
        except InvalidSignature as error:
            raise _foreign(folder, "the signature does not fit what is signed and the key") from error
        # The library's own exceptions are of many classes; the files tell which one of them differs.
        except Exception as error:
            _refuse_differences(folder, signature.files, contents=True)
            raise SIGNATURE_KIND.refusal(folder / SIGNATURE, str(error)) from error


def _hashing() -> Any:
    """How the library reads the folder: every file, also git's own, which it leaves out where it is not told to."""
    from model_signing import hashing

    return hashing.Config().set_ignored_paths(paths=[SIGNATURE], ignore_git_paths=False)


def sign_bundle(folder: Path, key_file: Path, password: str | None = None, force: bool = False) -> Signature:
    """Sign an intact bundle; its signature appears whole or not at all.

    Args:
        folder: the bundle.
        key_file: a private key on the curve P-256, P-384 or P-521.
        password: of an encrypted key.
        force: replace the signature that is there.

    Returns:
        The signature, whose file is ``model.sig`` in the bundle.

    Raises:
        InputError: E605 or E606, the key; E120 or E123, there is a signature, or something else in its place; E130 to
            E137, the bundle is not intact; E604, it holds a link; E121 or E122, the signature cannot be written.
        ToolError: E600, the library is not installed.
    """
    key = read_private_key(key_file, password)
    require_bundle(folder)
    path = folder / SIGNATURE
    with typed_os_errors(path):
        clean_siblings(path)
    _refuse_existing(path, force)
    manifest = open_bundle(folder).manifest
    with unreadable_as_error(folder):
        _refuse_links(folder)
    with TemporaryDirectory() as aside:
        made = Path(aside, SIGNATURE)
        _sign_by_library(folder, made, key.path, key.password)
        raw, signature = made.read_bytes(), read_signature(made.parent)
    if signature.files != {file.path: file.sha256 for file in manifest.files} | {MANIFEST: manifest_sha256(manifest)}:
        raise _differs(folder, "it was changed while it was being signed")
    _write(path, raw)
    return signature


def _sign_by_library(folder: Path, made: Path, key: Path, password: bytes | None) -> None:
    from model_signing import signing

    # The library says that a password is a str, and hands it to a function that takes bytes alone.
    config = signing.Config().use_elliptic_key_signer(private_key=key, password=password)
    config.set_hashing_config(_hashing()).sign(os.path.realpath(folder), made)


def _write(path: Path, raw: bytes) -> None:
    try:
        write_file(path, raw)
    except InputError as error:
        if error.code != "E121":
            raise
        raise replace(error, fix="sign a copy of the bundle in a folder that you may write to") from error


def _refuse_existing(path: Path, force: bool) -> None:
    if not os.path.lexists(path):
        return
    if not force:
        fix = "add --force to replace its signature"
        raise InputError("The bundle is signed already.", str(path), fix=fix, code="E120")
    try:
        read_signature(path.parent)
    except InputError as error:
        fix = "move it away or remove it yourself"
        raise InputError("What is there is not a signature of a bundle.", str(path), error.why, fix, "E123") from error


def _refuse_links(folder: Path) -> None:
    """Refuse what could change from outside, or be something else on another machine."""
    for name, entry in walk(folder):
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            continue
        if stat.S_ISLNK(status.st_mode):
            raise _differs(folder, f"{name!r} is a symbolic link")
        if not stat.S_ISREG(status.st_mode):
            raise _differs(folder, f"{name!r} is neither a file nor a folder")
        if status.st_nlink > 1:
            raise _differs(folder, f"{name!r} is a hard link: it has another name, through which it can be changed")


def _refuse_differences(folder: Path, files: Mapping[str, str], contents: bool) -> None:
    differences = list(islice(_differences(folder, files, contents), _NAMED + 1))
    if differences:
        more = ["and more"] if len(differences) > _NAMED else []
        raise _differs(folder, "; ".join(differences[:_NAMED] + more))


def _differences(folder: Path, files: Mapping[str, str], contents: bool) -> Iterator[str]:
    """How a folder differs from what was signed; ``contents``: hash the files, too."""
    folders = {parent.as_posix() for name in files for parent in PurePosixPath(name).parents}
    present = {name: entry.is_dir(follow_symlinks=False) for name, entry in walk(folder) if name != SIGNATURE}
    for name in sorted(files.keys() - {name for name, is_folder in present.items() if not is_folder}):
        yield f"{name!r} is missing"
    for name, is_folder in sorted(present.items()):
        if name not in (folders if is_folder else files):
            yield f"{name!r} was added"
        elif contents and not is_folder and file_sha256(folder / name) != files[name]:
            yield f"{name!r} was changed"


def _differs(folder: Path, why: str) -> InputError:
    return InputError("The bundle is not what was signed.", str(folder), why, _FETCH, "E604")


def _foreign(folder: Path, why: str) -> InputError:
    fix = "get the public key of whoever signs these bundles, or do not use this one"
    return InputError("The signature is not by this key.", str(folder / SIGNATURE), why, fix, "E603")
