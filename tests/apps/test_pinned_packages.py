"""`edgec embed --public-key`: what it refuses, what the package then holds, and what its bundles have in common."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_der_public_key

from edgec.apps.embed.bundle_interface import NAMES, interface
from edgec.apps.embed.embed import embed
from edgec.bundle.canonical import canonical_json
from edgec.bundle.folder import SIGNATURE
from edgec.bundle.signature import check_signature, sign_bundle
from edgec.bundle.signing_keys import PublicKey
from edgec.errors import InputError
from tests.apps.android_bundles import CPU
from tests.apps.kotlin_bundles import golden_vectors, real_bundle
from tests.apps.pinned_apps import newer_than
from tests.apps.swift_bundles import write_good
from tests.bundle.bundle_samples import sample_manifest
from tests.bundle.signatures import key, public_pem, write_keys

# The sample has neither vision, audio, prompts of an encoder nor a prefix, and its runtime no plug-in.
LACKING = {
    "vision_language",
    "audio_language",
    "sentence_encoder",
    "prefix.form",
    "prefix.text",
    "tools.onnxruntime-qnn",
}
RESOURCES = {"android": "model/src/main/assets/model.edgec", "ios": "Sources/*/Resources/Model.edgec"}


@pytest.fixture(params=RESOURCES)
def platform(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def signed(platform: str, tmp_path: Path) -> Path:
    """A signed bundle with a report; its key lies beside it."""
    plain = tmp_path / "plain.edgec"
    own = real_bundle(plain, CPU, golden_vectors()) if platform == "android" else write_good(plain, "dynamic")
    return newer_than(own, tmp_path / "in" / "signed.edgec")


def _public(folder: Path, name: str) -> Path:
    return write_keys(folder, name)[1]


def test_the_package_holds_the_key_and_the_whole_signed_bundle(signed: Path, platform: str, tmp_path: Path) -> None:
    made = embed(signed, platform, tmp_path / "kit", public_key=_public(tmp_path, "own"))
    (resource,) = made.path.glob(RESOURCES[platform])
    own = PublicKey(public_pem("own"))
    assert check_signature(resource, own) == check_signature(signed, own)
    (facts,) = (json.loads(path.read_text())["key"] for path in made.path.rglob("facts.json"))
    assert load_der_public_key(b64decode(facts["der"])) == key("own").public_key()
    assert (facts["sha256"], facts["curve"]) == (own.fingerprint, "P-256")
    assert made.to_json()["public_key_sha256"] == own.fingerprint
    readme = (made.path / "README.md").read_text()
    assert "## Signed bundles" in readme and own.fingerprint in readme


def test_without_a_key_the_signature_stays_out(signed: Path, platform: str, tmp_path: Path) -> None:
    made = embed(signed, platform, tmp_path / "kit")
    (resource,) = made.path.glob(RESOURCES[platform])
    assert made.to_json()["public_key_sha256"] is None
    assert not (resource / SIGNATURE).exists() and not (resource / "report.html").exists()
    (facts,) = (json.loads(path.read_text())["key"] for path in made.path.rglob("facts.json"))
    assert (facts["sha256"], facts["der"]) == ("", "")
    assert "Signed bundles" not in (made.path / "README.md").read_text()


@pytest.mark.parametrize(("curve", "words"), [("P-384", ("P384.Signing", "384")), ("P-521", ("P521.Signing", "512"))])
def test_the_hash_goes_with_the_curve(
    curve: str, words: tuple[str, str], signed: Path, platform: str, tmp_path: Path
) -> None:
    sign_bundle(signed, write_keys(tmp_path, curve)[0], force=True)
    made = embed(signed, platform, tmp_path / "kit", public_key=_public(tmp_path, curve))
    (facts,) = (json.loads(path.read_text()) for path in made.path.rglob("facts.json"))
    assert facts["key"]["curve"] == curve
    (source,) = (path.read_text() for path in made.path.rglob("PinnedKey.*"))
    assert words[0 if platform == "ios" else 1] in source


@pytest.mark.parametrize("code", ["E601", "E603", "E604", "E605"])
def test_what_the_key_does_not_vouch_for_is_not_embedded(
    code: str, signed: Path, platform: str, tmp_path: Path
) -> None:
    public = _public(tmp_path, "foreign" if code == "E603" else "own")
    if code == "E601":
        (signed / SIGNATURE).unlink()
    elif code == "E604":
        (signed / "model.pte").write_bytes(b"other")
    elif code == "E605":
        public = write_keys(tmp_path, "own")[0]
    with pytest.raises(InputError) as caught:
        embed(signed, platform, tmp_path / "kit", public_key=public)
    assert caught.value.code == code and not (tmp_path / "kit").exists()


def _value(name: str) -> Any:
    value = json.loads(canonical_json(sample_manifest()))
    for part in name.split("."):
        value = value.get(part) if value is not None else None
    return value


@pytest.mark.parametrize("name", NAMES)
def test_a_sum_is_that_of_the_fields_own_text(name: str) -> None:
    """For values on one line the text is that of JSON; of others only that there is a sum is looked at."""
    found, value = interface(sample_manifest())[name], _value(name)
    if name in LACKING:
        assert value is None and found == ""
    elif not isinstance(value, list | dict):
        assert found == hashlib.sha256(json.dumps(value).encode()).hexdigest()
    assert bool(found) == (name not in LACKING)


def test_only_what_the_code_depends_on_is_summed() -> None:
    sample = sample_manifest()
    other: dict[str, Any] = {
        "name": "other",
        "recipe": {"name": "3bit"},
        "tools": {"edgec": "9"},
        "parity": [],
        "ledger": None,
    }
    states = [sample.states[0].model_copy(update={"offset": 64}), *sample.states[1:]]
    assert interface(sample.model_copy(update={**other, "states": states})) == interface(sample)
    model = sample.model.model_copy(update={"source": 'x",\n  "target": "y', "vocab_size": 5})
    changed = interface(sample.model_copy(update={"model": model}))
    assert {name for name in NAMES if changed[name] != interface(sample)[name]} == {"model.vocab_size"}
