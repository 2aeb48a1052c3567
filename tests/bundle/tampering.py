"""The refusal table of signed bundles: what may be done to one, and how that is refused. docs/signing.md shows it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from edgec.bundle.canonical import canonical_json, seal
from edgec.bundle.folder import SIGNATURE, read_manifest, write_bundle
from edgec.bundle.signature import sign_bundle
from tests.bundle.bundle_samples import write_sample
from tests.bundle.signatures import Fields, put_payload, restate, rewrite, signature_fields, write_keys

Change = Callable[[Path, Path], object]
MODEL = "model.pte"


@dataclass(frozen=True)
class Tampering:
    """One way to tamper with a signed bundle.

    Attributes:
        change: gets the bundle and a folder outside of it.
        code: of the refusal.
        why: words of the refusal.
    """

    change: Change
    code: str
    why: str


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _consistent(bundle: Path, outside: Path) -> None:
    """Replace the artifact, and seal a manifest that lists the new one: unsigned, that is an intact bundle."""
    manifest = read_manifest(bundle)
    contents = {file.path: (bundle / file.path).read_bytes() for file in manifest.files}
    write_bundle(bundle, manifest, contents | {MODEL: b"another model"}, force=True)


def _other_provenance(bundle: Path, outside: Path) -> None:
    manifest = read_manifest(bundle)
    model = manifest.model.model_copy(update={"revision": "0" * 40})
    (bundle / "manifest.json").write_bytes(canonical_json(seal(manifest.model_copy(update={"model": model}))))


def _swap(bundle: Path, outside: Path) -> None:
    (bundle / MODEL).rename(outside / "x")
    (bundle / "report.html").rename(bundle / MODEL)
    (outside / "x").rename(bundle / "report.html")


def _folder_model(bundle: Path, outside: Path) -> None:
    (bundle / MODEL).unlink()
    (bundle / MODEL).mkdir()


def _keeping_signature(change: Change) -> Change:
    def changed(bundle: Path, outside: Path) -> None:
        kept = (bundle / SIGNATURE).read_bytes()
        change(bundle, outside)
        (bundle / SIGNATURE).write_bytes(kept)

    return changed


def _moved(link: Callable[[Path, Path], object], name: str = MODEL) -> Change:
    """Move a file or folder of the bundle outside, and link to it."""

    def changed(bundle: Path, outside: Path) -> None:
        (bundle / name).rename(outside / "moved")
        link(bundle / name, outside / "moved")

    return changed


def _add(name: str, content: bytes = b"") -> Change:
    def changed(bundle: Path, outside: Path) -> None:
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_bytes(content)

    return changed


def _signature(content: bytes) -> Change:
    return lambda bundle, outside: (bundle / SIGNATURE).write_bytes(content)


def _huge(bundle: Path, outside: Path) -> None:
    with open(bundle / SIGNATURE, "r+b") as file:
        file.truncate(17 << 20)


def _folder_signature(bundle: Path, outside: Path) -> None:
    (bundle / SIGNATURE).unlink()
    (bundle / SIGNATURE).mkdir()


def _foreign_signature(bundle: Path, outside: Path) -> None:
    sign_bundle(bundle, write_keys(outside, "foreign")[0], force=True)


def _foreign_under_own_name(bundle: Path, outside: Path) -> None:
    own = signature_fields(bundle)["verificationMaterial"]
    _foreign_signature(bundle, outside)
    rewrite(lambda fields: fields.update(verificationMaterial=own))(bundle, outside)


def _of_another_bundle(bundle: Path, outside: Path) -> None:
    other = write_sample(outside)
    (other / "manifest.json").write_bytes(canonical_json(seal(read_manifest(other).model_copy(update={"name": "b"}))))
    sign_bundle(other, write_keys(outside, "own")[0])
    shutil.copy(other / SIGNATURE, bundle / SIGNATURE)


def _resources(fields: Fields) -> list[Fields]:
    resources: list[Fields] = fields["predicate"]["resources"]
    return resources


def _serialization(**values: object) -> Change:
    return restate(lambda fields: fields["predicate"]["serialization"].update(values))


def _leave_out_model(fields: Fields) -> None:
    """As the library signs with ``--ignore-paths model.pte``: the signature is right, and covers less."""
    kept = [resource for resource in _resources(fields) if resource["name"] != MODEL]
    fields["predicate"]["resources"] = kept
    fields["predicate"]["serialization"]["ignore_paths"] = [SIGNATURE, MODEL]
    digests = b"".join(bytes.fromhex(resource["digest"]) for resource in kept)
    fields["subject"][0]["digest"]["sha256"] = sha256(digests).hexdigest()


FILES_TABLE: dict[str, Tampering] = {
    "one bit of the artifact": Tampering(lambda b, o: _flip(b / MODEL), "E604", "'model.pte' was changed"),
    "the artifact emptied": Tampering(_add(MODEL), "E604", "'model.pte' was changed"),
    "one bit of a tokenizer": Tampering(lambda b, o: _flip(b / "tokenizer/tokenizer.json"), "E604", "tokenizer.json"),
    "one bit of the report": Tampering(lambda b, o: _flip(b / "report.html"), "E604", "'report.html' was changed"),
    "one bit of the manifest": Tampering(lambda b, o: _flip(b / "manifest.json"), "E604", "'manifest.json' was ch"),
    "another model with a manifest of its own": Tampering(_keeping_signature(_consistent), "E604", "'model.pte' was"),
    "another provenance, digest made right": Tampering(_other_provenance, "E604", "'manifest.json' was changed"),
    "two files swapped": Tampering(_swap, "E604", "'model.pte' was changed; 'report.html' was changed"),
    "a file added": Tampering(_add("notes.txt"), "E604", "'notes.txt' was added"),
    "a file added in a folder": Tampering(_add("tokenizer/evil.py"), "E604", "'tokenizer/evil.py' was added"),
    "a hidden file added": Tampering(_add(".DS_Store"), "E604", "'.DS_Store' was added"),
    "git's file added, which the library ignores": Tampering(_add(".gitattributes"), "E604", "'.gitattributes' was"),
    "git's folder added, which the library ignores": Tampering(_add(".git/hooks/x"), "E604", "'.git' was added"),
    "an empty folder added": Tampering(lambda b, o: (b / "empty").mkdir(), "E604", "'empty' was added"),
    "a name in another case": Tampering(_add("Model.pte"), "E604", "'Model.pte' was added"),
    "a second signature": Tampering(_add("MODEL.SIG"), "E604", "'MODEL.SIG' was added"),
    "a file removed": Tampering(lambda b, o: (b / MODEL).unlink(), "E604", "'model.pte' is missing"),
    "a folder removed": Tampering(lambda b, o: shutil.rmtree(b / "tokenizer"), "E604", "tokenizer.json' is missing"),
    "the manifest removed": Tampering(lambda b, o: (b / "manifest.json").unlink(), "E130", ""),
    "a file renamed": Tampering(
        lambda b, o: (b / MODEL).rename(b / "model2.pte"), "E604", "'model.pte' is missing; 'model2.pte' was added"
    ),
    "a folder instead of a file": Tampering(_folder_model, "E604", "'model.pte' is missing; 'model.pte' was added"),
    "a symbolic link to the same content": Tampering(_moved(Path.symlink_to), "E604", "'model.pte' is a symbolic link"),
    "a symbolic link for a folder": Tampering(_moved(Path.symlink_to, "tokenizer"), "E604", "'tokenizer' is a symbol"),
    "a symbolic link that leads nowhere": Tampering(
        lambda b, o: (b / "link").symlink_to(o / "nowhere"), "E604", "'link' is a symbolic link"
    ),
    "a hard link to a file outside": Tampering(_moved(Path.hardlink_to), "E604", "'model.pte' is a hard link"),
    "a hard link inside": Tampering(lambda b, o: os.link(b / MODEL, b / "twin"), "E604", "is a hard link"),
    "a pipe": Tampering(lambda b, o: os.mkfifo(b / "pipe"), "E604", "'pipe' is neither a file nor a folder"),
}
SIGNATURE_TABLE: dict[str, Tampering] = {
    "the signature removed": Tampering(lambda b, o: (b / SIGNATURE).unlink(), "E601", "no model.sig"),
    "a signature by another key": Tampering(_foreign_signature, "E603", "it names the key"),
    "a signature by another key under this one's name": Tampering(_foreign_under_own_name, "E603", "does not fit"),
    "a signature of another bundle": Tampering(_of_another_bundle, "E604", "'manifest.json' was changed"),
    "what is signed was changed": Tampering(
        restate(lambda fields: _resources(fields)[0].update(digest="0" * 64), signer=None), "E603", "does not fit"
    ),
    "an empty signature": Tampering(_signature(b""), "E602", ""),
    "a signature that is not JSON": Tampering(_signature(b"-----BEGIN"), "E602", ""),
    "a signature that is not an object": Tampering(_signature(b"[]"), "E602", ""),
    "an empty object": Tampering(_signature(b"{}"), "E602", "mediaType"),
    "a deep signature": Tampering(_signature(b"[" * 100_000), "E602", ""),
    "a signature that is not UTF-8": Tampering(_signature(b'{"mediaType": "\xff"}'), "E602", ""),
    "a signature cut off": Tampering(
        lambda b, o: os.truncate(b / SIGNATURE, (b / SIGNATURE).stat().st_size - 9), "E602", ""
    ),
    "a huge signature": Tampering(_huge, "E602", "larger than"),
    "a folder for a signature": Tampering(_folder_signature, "E602", "not a plain file"),
    "a link for a signature": Tampering(_moved(Path.symlink_to, SIGNATURE), "E604", "'model.sig' is a symbolic link"),
    "a hard link for a signature": Tampering(_moved(Path.hardlink_to, SIGNATURE), "E604", "'model.sig' is a hard link"),
    "another media type": Tampering(rewrite(lambda f: f.update(mediaType="text/plain")), "E602", "mediaType"),
    "no name of a key": Tampering(rewrite(lambda f: f["verificationMaterial"].clear()), "E602", "publicKey"),
    "a certificate instead of a key": Tampering(
        rewrite(lambda f: f.update(verificationMaterial={"x509CertificateChain": {"certificates": []}})),
        "E602",
        "public",
    ),
    "another payload type": Tampering(
        rewrite(lambda f: f["dsseEnvelope"].update(payloadType="text/plain")), "E602", "payloadType"
    ),
    "no signature in the envelope": Tampering(
        rewrite(lambda f: f["dsseEnvelope"].update(signatures=[])), "E602", "signatures"
    ),
    "two signatures in the envelope": Tampering(
        rewrite(lambda f: f["dsseEnvelope"]["signatures"].append(f["dsseEnvelope"]["signatures"][0])), "E602", "signat"
    ),
    "a signature that is not base64": Tampering(
        rewrite(lambda f: f["dsseEnvelope"]["signatures"][0].update(sig="*")), "E602", "sig"
    ),
    "a signature of no bytes": Tampering(
        rewrite(lambda f: f["dsseEnvelope"]["signatures"][0].update(sig="")), "E603", "does not fit"
    ),
    "a signed text that is not JSON": Tampering(lambda b, o: put_payload(b, b"model.pte"), "E602", ""),
    "a signed deep list": Tampering(lambda b, o: put_payload(b, b"[" * 100_000), "E602", ""),
    "the library's format before 1.0": Tampering(
        restate(lambda f: f.update(predicateType="https://model_signing/Digests/v0.1")), "E602", "predicateType"
    ),
    "parts of files signed": Tampering(_serialization(method="shards", shard_size=1000), "E602", "method"),
    "another hash": Tampering(_serialization(hash_type="blake3"), "E602", "hash_type"),
    "a path that leaves the bundle": Tampering(
        restate(lambda f: _resources(f)[0].update(name="../x")), "E602", "leaves the folder"
    ),
    "a file signed twice": Tampering(
        restate(lambda f: _resources(f).append(_resources(f)[0])), "E602", "names a file twice"
    ),
    "a digest over all files that is wrong": Tampering(
        restate(lambda f: f["subject"][0]["digest"].update(sha256="0" * 64)), "E602", "inconsistent"
    ),
    "no subject": Tampering(restate(lambda f: f.update(subject=[])), "E602", "subject"),
    "a file left out of what is signed": Tampering(restate(_leave_out_model), "E604", "'model.pte' was added"),
    "a file more in what is signed": Tampering(
        restate(lambda f: _resources(f).append({**_resources(f)[0], "name": "z"})), "E604", "'z' is missing"
    ),
}
TABLE = FILES_TABLE | SIGNATURE_TABLE
