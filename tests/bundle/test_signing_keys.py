"""Keys that sign and check: the kinds that fit, and the refusal of all others before anything is written."""

from __future__ import annotations

import datetime
from base64 import encodebytes
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from edgec.bundle.folder import SIGNATURE
from edgec.bundle.signature import check_signature, sign_bundle
from edgec.bundle.signing_keys import read_private_key, read_public_key
from edgec.errors import InputError
from tests.bundle.bundle_samples import write_sample
from tests.bundle.signatures import key, private_pem, public_pem, write_keys

PASSWORD = "Straße 7"
Content = Callable[[], bytes]


def certificate() -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "signer")])
    start = datetime.datetime(2026, 1, 1)
    builder = x509.CertificateBuilder(name, name, key("own").public_key(), 1, start, start.replace(year=2036))
    result: bytes = builder.sign(key("own"), hashes.SHA256()).public_bytes(Encoding.PEM)
    return result


def openssh() -> bytes:
    return bytes(key("own").private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))


def der() -> bytes:
    return bytes(key("own").private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))


def explicit_parameters() -> bytes:
    """A block as ``openssl ecparam -genkey`` writes one before the key."""
    return b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"


BAD_PRIVATE: dict[str, tuple[Content, str, str, str]] = {
    "an RSA key": (lambda: private_pem("RSA"), "", "E605", "not an elliptic-curve key"),
    "an old RSA key": (
        lambda: private_pem("RSA", form=PrivateFormat.TraditionalOpenSSL),
        "",
        "E605",
        "not an elliptic-curve key",
    ),
    "a DSA key": (lambda: private_pem("DSA"), "", "E605", "not an elliptic-curve key"),
    "an Ed25519 key": (lambda: private_pem("Ed25519"), "", "E605", "not an elliptic-curve key"),
    "the curve of coins": (lambda: private_pem("secp256k1"), "", "E605", "its curve is secp256k1"),
    "a brainpool curve": (lambda: private_pem("brainpool"), "", "E605", "its curve is brainpoolP256r1"),
    "a public key": (lambda: public_pem("own"), "", "E605", "it holds a public key, not a private key"),
    "a certificate": (certificate, "", "E605", "it holds a certificate"),
    "an OpenSSH key": (openssh, "", "E605", ""),
    "parameters without a key": (explicit_parameters, "", "E605", "it holds an ec parameters"),
    "an encrypted key without its password": (lambda: private_pem("own", PASSWORD), "", "E606", "is encrypted"),
    "an encrypted key with another password": (lambda: private_pem("own", PASSWORD), "guess", "E606", ""),
    "an old encrypted key without its password": (
        lambda: private_pem("own", PASSWORD, PrivateFormat.TraditionalOpenSSL),
        "",
        "E606",
        "is encrypted",
    ),
    "an old encrypted key with another password": (
        lambda: private_pem("own", PASSWORD, PrivateFormat.TraditionalOpenSSL),
        "guess",
        "E606",
        "",
    ),
    "a password for a key without one": (lambda: private_pem("own"), "guess", "E606", "is not encrypted"),
    "a text": (lambda: b"my key\n", "", "E605", "not a PEM file"),
    "an empty file": (lambda: b"", "", "E605", "not a PEM file"),
    "a key in DER": (der, "", "E605", "not a PEM file"),
    "a key cut off": (lambda: private_pem("own")[:90], "", "E605", ""),
    "a damaged key": (lambda: private_pem("own").replace(b"M", b"N", 3), "", "E605", ""),
    "a huge file": (lambda: private_pem("own") + bytes(1 << 20), "", "E605", "larger than"),
}
BAD_PUBLIC: dict[str, tuple[Content, str]] = {
    "an RSA key": (lambda: public_pem("RSA"), "not an elliptic-curve key"),
    "an Ed25519 key": (lambda: public_pem("Ed25519"), "not an elliptic-curve key"),
    "the curve of coins": (lambda: public_pem("secp256k1"), "its curve is secp256k1"),
    "a private key": (lambda: private_pem("own"), "which is to stay with whoever signs"),
    "a private and a public key": (lambda: public_pem("own") + private_pem("own"), "which is to stay"),
    "an encrypted private key": (lambda: private_pem("own", PASSWORD), "which is to stay with whoever signs"),
    "a certificate": (certificate, "it holds a certificate, not a public key"),
    "a text": (lambda: b"my key\n", "not a PEM file"),
    "an empty file": (lambda: b"", "not a PEM file"),
    "a key cut off": (lambda: public_pem("own")[:60], ""),
    "a huge file": (lambda: public_pem("own") + bytes(1 << 20), "larger than"),
}


def full(error: InputError, path: Path) -> bool:
    return bool(error.what and error.why and error.fix) and error.where == str(path) and error.exit_code == 1


@pytest.mark.parametrize("name", BAD_PRIVATE)
def test_a_key_that_cannot_sign_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    make, password, code, why = BAD_PRIVATE[name]
    path, bundle = tmp_path / "key.pem", write_sample(tmp_path)
    path.write_bytes(make())
    with pytest.raises(InputError) as caught:
        sign_bundle(bundle, path, password)
    assert caught.value.code == code and full(caught.value, path) and why in caught.value.why, str(caught.value)
    assert PASSWORD not in str(caught.value) and not (bundle / SIGNATURE).exists()


@pytest.mark.parametrize("name", BAD_PUBLIC)
def test_a_key_that_cannot_check_is_refused(tmp_path: Path, name: str) -> None:
    make, why = BAD_PUBLIC[name]
    path = tmp_path / "public.pem"
    path.write_bytes(make())
    with pytest.raises(InputError) as caught:
        read_public_key(path)
    assert caught.value.code == "E605" and full(caught.value, path) and why in caught.value.why, str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none", Path("/dev/zero")):
        for read in (read_private_key, read_public_key):
            with pytest.raises(InputError) as caught:
                read(path)
            assert caught.value.code == "E605" and full(caught.value, path)


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("name", ["own", "P-384", "P-521"])
def test_an_encrypted_key_signs_with_its_password(tmp_path: Path, name: str, form: PrivateFormat) -> None:
    bundle, (_, public), path = write_sample(tmp_path), write_keys(tmp_path, name), tmp_path / "encrypted.pem"
    path.write_bytes(private_pem(name, PASSWORD, form))
    sign_bundle(bundle, path, PASSWORD)
    assert check_signature(bundle, read_public_key(public)).files
    assert PASSWORD not in repr(read_private_key(path, PASSWORD))


def test_openssls_default_files_are_read(tmp_path: Path) -> None:
    """A key after its parameters, and a public key whose point is compressed: another file, the same key."""
    path = tmp_path / "key.pem"
    path.write_bytes(explicit_parameters() + private_pem("own", form=PrivateFormat.TraditionalOpenSSL))
    assert read_private_key(path, "").public.pem == public_pem("own")
    point = key("own").public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    header = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200")
    path.write_bytes(b"-----BEGIN PUBLIC KEY-----\n" + encodebytes(header + point) + b"-----END PUBLIC KEY-----\n")
    assert read_public_key(path).pem == public_pem("own")
