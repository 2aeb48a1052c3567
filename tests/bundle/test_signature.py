"""Signed bundles: what was signed is accepted, and whatever was tampered with is refused."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.bundle import atomic
from edgec.bundle.folder import SIGNATURE, check_output, open_bundle, write_bundle
from edgec.bundle.signature import check_signature, sign_bundle
from edgec.bundle.signature_file import read_signature
from edgec.bundle.signing_keys import PublicKey, read_public_key
from edgec.errors import InputError, ToolError
from edgec.installation import install_command
from tests.bundle.bundle_samples import FILES, sample_manifest, write_sample
from tests.bundle.signatures import public_pem, rewrite, write_keys
from tests.bundle.tampering import TABLE
from tests.example_counts import examples

KEY = PublicKey(public_pem("own"))


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed bundle. Read only: copy it before changing it."""
    folder = tmp_path_factory.mktemp("signed")
    bundle = write_sample(folder)
    sign_bundle(bundle, write_keys(folder, "own")[0])
    return bundle


@pytest.fixture
def copy(signed: Path, tmp_path: Path) -> Path:
    """A copy of it to tamper with, in a folder of its own."""
    return Path(shutil.copytree(signed, tmp_path / "copy" / signed.name))


def refused(bundle: Path, code: str) -> InputError:
    with pytest.raises(InputError) as caught:
        check_signature(bundle, KEY)
    error = caught.value
    assert error.code.startswith(code) and error.exit_code == 1, str(error)
    assert error.what and error.where and error.fix, str(error)
    return error


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestRefusals:
    @pytest.mark.parametrize("name", TABLE)
    def test_tampering_is_refused(self, copy: Path, tmp_path: Path, name: str) -> None:
        row = TABLE[name]
        assert check_signature(copy, KEY).files
        row.change(copy, tmp_path)
        assert row.why in refused(copy, row.code).why

    @settings(max_examples=examples(200), deadline=None)
    @given(data=st.data())
    def test_whichever_file_is_changed_and_however(
        self, signed: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        bundle = Path(shutil.copytree(signed, tmp_path_factory.mktemp("any") / signed.name))
        path = bundle / data.draw(st.sampled_from([*sorted(FILES), "manifest.json"]))
        raw = path.read_bytes()
        at = data.draw(st.integers(0, len(raw) - 1))
        other = data.draw(st.binary(min_size=1, max_size=8))
        kind = data.draw(st.sampled_from(["flip", "insert", "cut", "remove", "rename", "symlink", "hard link", "add"]))
        if kind == "flip":
            path.write_bytes(raw[:at] + bytes([raw[at] ^ data.draw(st.integers(1, 255))]) + raw[at + 1 :])
        elif kind == "insert":
            path.write_bytes(raw[:at] + other + raw[at:])
        elif kind == "cut":
            path.write_bytes(raw[:at])
        elif kind == "remove":
            path.unlink()
        elif kind == "rename":
            path.rename(path.with_name(f"{other.hex()}{path.name}"))
        elif kind == "add":
            path.with_name(f"{other.hex()}{path.name}").write_bytes(raw)
        else:
            path.rename(bundle.parent / "moved")
            (path.symlink_to if kind == "symlink" else path.hardlink_to)(bundle.parent / "moved")
        refused(bundle, "E130" if not (bundle / "manifest.json").exists() else "E604")

    @settings(max_examples=examples(200), deadline=None)
    @given(at=st.integers(0, 1 << 20), flip=st.integers(1, 255), cut=st.booleans())
    def test_a_damaged_signature_says_the_same_or_is_refused(
        self, signed: Path, tmp_path_factory: pytest.TempPathFactory, at: int, flip: int, cut: bool
    ) -> None:
        bundle = Path(shutil.copytree(signed, tmp_path_factory.mktemp("any") / signed.name))
        intact, raw = read_signature(bundle), bytearray((bundle / SIGNATURE).read_bytes())
        at %= len(raw)
        raw[at] ^= flip
        (bundle / SIGNATURE).write_bytes(raw[:at] if cut else raw)
        try:
            found = check_signature(bundle, KEY)
        except InputError as error:
            assert error.code in ("E602", "E603") and error.fix
        else:
            # Names of fields that nothing reads may differ; nothing that is signed.
            assert found == intact and not cut

    def test_fields_that_nothing_reads_reach_nothing(self, signed: Path, copy: Path, tmp_path: Path) -> None:
        deep: list[Any] = []
        for _ in range(50):
            deep = [deep]
        rewrite(lambda fields: fields["verificationMaterial"].update(tlogEntries=deep, x509CertificateChain=1))(
            copy, tmp_path
        )
        assert check_signature(copy, KEY) == check_signature(signed, KEY)

    def test_what_is_no_bundle_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        for path in (tmp_path, tmp_path / "file", tmp_path / "none"):
            refused(path, "E130")


class TestFormat:
    @pytest.mark.parametrize("name", ["own", "P-384", "P-521"])
    def test_the_library_reads_what_edgec_signs(self, tmp_path: Path, name: str) -> None:
        from model_signing.verifying import Config

        bundle, (private, public) = write_sample(tmp_path), write_keys(tmp_path, name)
        made = sign_bundle(bundle, private)
        assert made == check_signature(bundle, read_public_key(public))
        assert set(made.files) == {*FILES, "manifest.json"}
        Config().use_elliptic_key_verifier(public_key=public).verify(bundle, bundle / SIGNATURE)

    def test_edgec_reads_what_the_library_signs(self, tmp_path: Path) -> None:
        from model_signing.hashing import Config as Hashing
        from model_signing.signing import Config

        bundle, (private, _) = write_sample(tmp_path), write_keys(tmp_path, "own")
        signer = Config().use_elliptic_key_signer(private_key=private)
        signer.set_hashing_config(Hashing().set_ignored_paths(paths=[bundle / SIGNATURE])).sign(
            bundle, bundle / SIGNATURE
        )
        assert set(check_signature(bundle, KEY).files) == {*FILES, "manifest.json"}

    def test_the_key_is_named_by_the_sum_of_its_file(self, signed: Path) -> None:
        public = signed.parent / "own-public.pem"
        assert read_signature(signed).key == hashlib.sha256(public.read_bytes()).hexdigest()

    def test_files_that_the_library_leaves_out_by_default_are_signed(self, tmp_path: Path) -> None:
        names = {".gitattributes", ".github/x", ".git/config"}
        write_bundle(tmp_path / "a.edgec", sample_manifest(), {**FILES, **dict.fromkeys(names, b"x")})
        assert names < set(sign_bundle(tmp_path / "a.edgec", write_keys(tmp_path, "own")[0]).files)
        assert names < set(check_signature(tmp_path / "a.edgec", KEY).files)

    def test_no_network_is_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_network(*arguments: object) -> None:
            raise AssertionError("a connection was tried")

        monkeypatch.setattr(socket.socket, "connect", no_network)
        monkeypatch.setattr(socket, "getaddrinfo", no_network)
        bundle, (private, public) = write_sample(tmp_path), write_keys(tmp_path, "own")
        sign_bundle(bundle, private)
        assert check_signature(bundle, read_public_key(public)).files

    def test_a_bundle_behind_a_link_is_signed_and_checked(self, tmp_path: Path) -> None:
        bundle, (private, _) = write_sample(tmp_path), write_keys(tmp_path, "own")
        (tmp_path / "link.edgec").symlink_to(bundle)
        sign_bundle(tmp_path / "link.edgec", private)
        assert check_signature(bundle, KEY) == check_signature(tmp_path / "link.edgec", KEY)


class TestSigning:
    def test_a_signature_is_replaced_only_with_force(self, copy: Path, tmp_path: Path) -> None:
        before = contents(copy)
        private, public = write_keys(tmp_path, "P-384")
        with pytest.raises(InputError) as caught:
            sign_bundle(copy, private)
        assert caught.value.code == "E120" and contents(copy) == before
        sign_bundle(copy, private, force=True)
        assert check_signature(copy, read_public_key(public)).files
        refused(copy, "E603")

    def test_what_is_no_signature_is_not_replaced(self, copy: Path, tmp_path: Path) -> None:
        (copy / SIGNATURE).write_text("mine")
        with pytest.raises(InputError) as caught:
            sign_bundle(copy, write_keys(tmp_path, "own")[0], force=True)
        assert caught.value.code == "E123" and (copy / SIGNATURE).read_text() == "mine"

    @pytest.mark.parametrize(
        ("name", "code"),
        [
            ("one bit of the artifact", "E135"),
            ("a file added", "E136"),
            ("a file removed", "E134"),
            ("a symbolic link to the same content", "E134"),
            ("a hard link to a file outside", "E604"),
            ("the manifest removed", "E130"),
        ],
    )
    def test_a_bundle_that_is_not_intact_is_not_signed(self, tmp_path: Path, name: str, code: str) -> None:
        bundle = write_sample(tmp_path)
        TABLE[name].change(bundle, tmp_path)
        with pytest.raises(InputError) as caught:
            sign_bundle(bundle, write_keys(tmp_path, "own")[0])
        assert caught.value.code == code and not (bundle / SIGNATURE).exists()

    @pytest.mark.parametrize(
        ("number", "code", "fix"), [(errno.ENOSPC, "E122", "free some space"), (errno.EACCES, "E121", "sign a copy")]
    )
    def test_a_failure_to_write_leaves_what_was_there(
        self, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str, fix: str
    ) -> None:
        before, private = contents(copy), write_keys(tmp_path, "own")[0]

        def failing(*names: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "replace", failing)
        with pytest.raises(InputError) as caught:
            sign_bundle(copy, private, force=True)
        assert caught.value.code == code and fix in caught.value.fix
        assert contents(copy) == before

    def test_what_a_killed_signer_left_goes_with_the_next(
        self, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(atomic, "own_mark", lambda: ("999999999", "t1"))
            leftover = atomic._sibling(copy / SIGNATURE, "new")
        leftover.write_text("half")
        refused(copy, "E604")
        sign_bundle(copy, write_keys(tmp_path, "own")[0], force=True)
        assert check_signature(copy, KEY).files and not leftover.exists()

    def test_a_bundle_that_changes_meanwhile_is_not_signed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from model_signing.signing import Config

        bundle, sign = write_sample(tmp_path), Config.sign

        def sign_late(self: Config, folder: str, made: Path) -> None:
            (bundle / "model.pte").write_bytes(b"late")
            sign(self, folder, made)

        monkeypatch.setattr(Config, "sign", sign_late)
        with pytest.raises(InputError, match="E604"):
            sign_bundle(bundle, write_keys(tmp_path, "own")[0])
        assert not (bundle / SIGNATURE).exists()


class TestUnchecked:
    """What opens, writes and replaces bundles knows the signature's file."""

    def test_a_signed_bundle_is_opened(self, signed: Path) -> None:
        assert open_bundle(signed).files_checked

    @pytest.mark.parametrize(
        ("name", "code"), [("a link for a signature", "E134"), ("a folder for a signature", "E136")]
    )
    def test_its_signature_is_a_plain_file(self, copy: Path, tmp_path: Path, name: str, code: str) -> None:
        TABLE[name].change(copy, tmp_path)
        with pytest.raises(InputError) as caught:
            open_bundle(copy)
        assert caught.value.code == code

    def test_force_replaces_a_signed_bundle_and_its_signature_goes(self, copy: Path) -> None:
        check_output(copy, force=True)
        write_bundle(copy, sample_manifest(), FILES, force=True)
        assert open_bundle(copy) and not (copy / SIGNATURE).exists()

    def test_no_file_of_a_bundle_has_its_name(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="reserved"):
            write_bundle(tmp_path / "a.edgec", sample_manifest(), {**FILES, SIGNATURE: b""})


def test_without_the_library_the_way_to_install_it_is_named(
    signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = write_keys(tmp_path, "own")
    monkeypatch.setitem(sys.modules, "model_signing", None)
    with pytest.raises(ToolError) as reading:
        read_public_key(public)
    with pytest.raises(ToolError) as signing:
        sign_bundle(signed, private, force=True)
    for caught in (reading, signing):
        assert (caught.value.code, caught.value.exit_code) == ("E600", 3)
        assert caught.value.fix == install_command("sign")
    assert open_bundle(signed).files_checked
