"""What an app with a pinned key loads and downloads, and what it must refuse, whatever language it is written in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgec.bundle.entry_points import Limits
from edgec.bundle.folder import SIGNATURE, open_bundle
from edgec.bundle.manifest import Manifest, PrefixInfo
from edgec.bundle.parts_list import PARTS_LIST
from edgec.bundle.signature import check_signature
from edgec.bundle.signing_keys import PublicKey
from edgec.bundle.split import split_bundle
from edgec.errors import InputError
from tests.apps.parts_server import serving
from tests.apps.pinned_apps import Change, Phone, Pinned, signed_copy
from tests.bundle.signatures import public_pem
from tests.bundle.tampering import TABLE

KEY = PublicKey(public_pem("own"))
DAMAGES = 400


def _updated(**fields: object) -> Change:
    return lambda manifest: manifest.model_copy(update=fields)


def _part(name: str, change: Callable[[Any], Mapping[str, object]]) -> Change:
    """A change of the fields of one part of the manifest, or of the first of several."""

    def changed(manifest: Manifest) -> Manifest:
        part = getattr(manifest, name)
        one, rest = (part[0], part[1:]) if isinstance(part, list) else (part, None)
        other = one.model_copy(update=dict(change(one)))
        return manifest.model_copy(update={name: other if rest is None else [other, *rest]})

    return changed


def _inputs(**fields: object) -> Change:
    return _part("methods", lambda method: {"inputs": [method.inputs[0].model_copy(update=fields), *method.inputs[1:]]})


@dataclass(frozen=True)
class Other:
    """Another bundle by the same key: how it differs, and what of it does not fit the app."""

    change: Change = lambda manifest: manifest
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    parts: frozenset[str] = frozenset()


_PREFIX = PrefixInfo(form="text", tokens=1, bytes=1, text="golden.json", state="golden.json", fingerprint="1")
OTHERS = {
    "another dtype of an input": Other(_inputs(dtype="int16"), parts=frozenset({"methods"})),
    "another name of an input": Other(_inputs(name="ids"), parts=frozenset({"methods"})),
    "another entry point": Other(_part("methods", lambda m: {"name": "go"}), parts=frozenset({"methods"})),
    "a larger chunk": Other(_part("methods", lambda m: {"dynamic": {"S": (1, 999)}}), parts=frozenset({"methods"})),
    "another shape of a state": Other(_part("states", lambda s: {"slots": 9}), parts=frozenset({"states"})),
    "no states": Other(_updated(states=[]), parts=frozenset({"states"})),
    "a longer context": Other(
        _updated(limits=Limits(context=4096, prefill_chunk=1, logit_rows=1)), parts=frozenset({"limits"})
    ),
    "another target": Other(_updated(target="pixel-8"), parts=frozenset({"target"})),
    "another vocabulary": Other(_part("model", lambda m: {"vocab_size": 77}), parts=frozenset({"model.vocab_size"})),
    "another version of the runtime": Other(
        _part("runtime", lambda r: {"version": "9.9.9"}), parts=frozenset({"runtime.version"})
    ),
    "another backend": Other(_part("runtime", lambda r: {"backends": ["x"]}), parts=frozenset({"runtime.backends"})),
    "an operator more": Other(
        _part("runtime", lambda r: {"operators": [*r.operators, "aten::mul.out"]}),
        parts=frozenset({"runtime.operators"}),
    ),
    "a system prompt of another kind": Other(_updated(prefix=_PREFIX), parts=frozenset({"prefix.form", "prefix.text"})),
    "another artifact": Other(
        _updated(artifact="other.pte"),
        {"model.pte": None, "other.pte": b"x"},
        frozenset({"artifact", "model.pte"}),
    ),
    "another tokenizer": Other(
        files={"tokenizer/tokenizer.json": b'{"a": 1}'}, parts=frozenset({"tokenizer/tokenizer.json"})
    ),
    "a file of the tokenizer more": Other(
        files={"tokenizer/chat_template.jinja": b"x"}, parts=frozenset({"tokenizer/chat_template.jinja"})
    ),
    "other stop tokens": Other(
        files={"generation_config.json": b'{"eos_token_id": 77}'}, parts=frozenset({"generation_config.json"})
    ),
    "no golden vectors": Other(files={"golden.json": None}, parts=frozenset({"golden.json"})),
    "several": Other(
        _updated(target="pixel-8", states=[]),
        {"tokenizer/tokenizer.json": b"{}1"},
        frozenset({"states", "target", "tokenizer/tokenizer.json"}),
    ),
    "another name, recipe and source": Other(_updated(name="later", recipe={"name": "3bit"})),
    "fewer operators": Other(_part("runtime", lambda r: {"operators": []})),
    "states at other places": Other(_part("states", lambda s: {"offset": 64})),
    "no parity, no ledger": Other(_updated(parity=[], ledger=None, passes=[])),
    "a file that nothing reads": Other(files={"recipe.toml": "name = 'ü'".encode()}),
}


def damaged(raw: bytes, random: Random) -> bytes:
    """A signature's file with one damage."""
    at, end = sorted(random.choices(range(len(raw)), k=2))
    kind = random.choice(["flip", "cut", "insert", "remove", "repeat", "letter"])
    changes = {
        "flip": raw[:at] + bytes([raw[at] ^ random.randrange(1, 256)]) + raw[at + 1 :],
        "cut": raw[:at],
        "insert": raw[:at] + random.randbytes(random.randrange(1, 9)) + raw[at:],
        "remove": raw[:at] + raw[end:],
        "repeat": raw[:end] + raw[at:],
        "letter": raw[:at] + random.choice(b'[]{}",:\\0AzZ=').to_bytes(1, "big") + raw[at + 1 :],
    }
    return changes[kind]


class PinnedCases:
    """Over the fixtures ``pinned``, ``phone`` (its app) and ``place`` (an empty folder)."""

    @pytest.fixture
    def copy(self, pinned: Pinned, place: Path) -> Path:
        """A copy of the newer bundle."""
        return Path(shutil.copytree(pinned.newer, place / "in" / "newer.edgec"))

    def test_a_newer_signed_bundle_is_loaded_and_stays_as_it_is(self, phone: Phone, copy: Path) -> None:
        for _ in range(2):
            assert phone.load(copy).kind == "done"
            check_signature(copy, KEY)

    @pytest.mark.parametrize("name", TABLE)
    def test_what_edgec_verify_refuses_is_refused_alike(self, name: str, phone: Phone, copy: Path, place: Path) -> None:
        TABLE[name].change(copy, place)
        with pytest.raises(InputError) as caught:
            check_signature(copy, KEY)
        said = phone.load(copy)
        assert (said.kind, said.code) == ("SignatureRefused", caught.value.code)
        # Of two names of one file, Python's refusal has the one that the folder lists first.
        same = said.code == "E604" and name != "a hard link inside"
        assert said.why == caught.value.why if same else TABLE[name].why in said.why

    def test_a_damaged_signature_says_the_same_or_is_refused(self, phone: Phone, copy: Path) -> None:
        raw, random, refusals = (copy / SIGNATURE).read_bytes(), Random(11), 0
        for _ in range(DAMAGES):
            (copy / SIGNATURE).write_bytes(damaged(raw, random))
            try:
                check_signature(copy, KEY)
                wanted = ["done"]
            except InputError as error:
                wanted, refusals = ["SignatureRefused", error.code], refusals + 1
            said = phone.load(copy)
            assert said.kind == wanted[0], (copy / SIGNATURE).read_bytes()
            assert said.kind == "done" or said.code in ("E602", "E603")
        assert refusals > DAMAGES * 0.9

    @pytest.mark.parametrize("name", OTHERS)
    def test_another_bundle_fits_or_is_named(self, name: str, pinned: Pinned, phone: Phone, place: Path) -> None:
        other = OTHERS[name]
        said = phone.load(signed_copy(pinned.own, place / "in" / "other.edgec", other.change, other.files))
        if other.parts:
            assert (said.kind, frozenset(said.why.split(", "))) == ("BundleDoesNotFit", other.parts)
        else:
            assert said.kind == "done", said

    def test_the_signature_comes_before_the_fit(self, pinned: Pinned, phone: Phone, place: Path) -> None:
        change = OTHERS["another target"].change
        foreign = signed_copy(pinned.own, place / "in" / "other.edgec", change, key="foreign")
        assert phone.load(foreign).code == "E603"
        own = signed_copy(pinned.own, place / "own" / "other.edgec", change)
        (own / "manifest.json").write_text("{")
        assert phone.load(own).code == "E604"

    def test_changes_after_the_first_load(self, phone: Phone, copy: Path) -> None:
        assert phone.load(copy).kind == "done"
        raw = (copy / "model.pte").read_bytes()
        (copy / "model.pte").write_bytes(raw[:-1] + b"\xff")
        assert (phone.load(copy).code, phone.load(copy, always=True).code) == ("E604", "E604")
        (copy / "model.pte").write_bytes(raw)
        assert phone.load(copy).kind == "done"
        (copy / "notes.txt").touch()
        assert phone.load(copy).why == "'notes.txt' was added"

    def test_what_the_times_of_files_hide_is_found_by_hashing(self, phone: Phone, copy: Path) -> None:
        assert phone.load(copy).kind == "done"
        artifact, status = copy / "model.pte", (copy / "model.pte").stat()
        with artifact.open("r+b") as file:
            file.write(b"\xff")
        os.utime(artifact, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert phone.load(copy, always=True).why == "'model.pte' was changed"

    def test_the_bundle_that_was_compiled_in_needs_no_signature(
        self, pinned: Pinned, phone: Phone, place: Path
    ) -> None:
        copy = Path(shutil.copytree(pinned.own, place / "own.edgec"))
        (copy / SIGNATURE).unlink()
        files = {path.name for path in copy.iterdir()}
        assert phone.load(copy).kind == "done"
        assert {path.name for path in copy.iterdir()} == files
        (copy / "model.pte").write_bytes(b"other")
        assert phone.load(copy, always=True).kind == "BundleAltered"

    def test_memory_is_that_of_the_newer_artifact(self, pinned: Pinned, phone: Phone, place: Path) -> None:
        large = signed_copy(pinned.own, place / "in" / "large.edgec", files={"model.pte": bytes(5_000_000)})
        assert phone.load(large, memory=5_000_000).kind == "NotEnoughMemory"
        assert phone.load(large).kind == "done"

    def test_a_newer_signed_bundle_is_downloaded(self, pinned: Pinned, phone: Phone, copy: Path, place: Path) -> None:
        split_bundle(copy, place / "newer.parts", 1000)
        with serving(place / "newer.parts") as parts:
            assert phone.get(parts.url, place / "b").kind == "done"
            assert phone.load(place / "b").kind == "done"
            parts.asked.clear()
            assert phone.get(parts.url, place / "b").kind == "done" and not parts.asked
            (place / "b" / SIGNATURE).write_bytes((pinned.own / SIGNATURE).read_bytes())
            assert phone.get(parts.url, place / "b").code == "E604"
            assert phone.get(parts.url, place / "c", digest="0" * 64).kind == "DownloadRefused"

    def test_a_download_that_is_not_signed_is_refused_before_its_parts(
        self, phone: Phone, copy: Path, place: Path
    ) -> None:
        (copy / SIGNATURE).unlink()
        split_bundle(copy, place / "newer.parts", 1000)
        with serving(place / "newer.parts") as parts:
            assert phone.get(parts.url, place / "b").code == "E601"
            assert [name for name, _ in parts.asked] == [PARTS_LIST]

    @pytest.mark.parametrize(
        ("name", "kind", "code"),
        [
            ("foreign", "SignatureRefused", "E603"),
            ("of another bundle", "SignatureRefused", "E604"),
            ("another target", "BundleDoesNotFit", ""),
        ],
    )
    def test_a_download_is_refused_when_its_signature_has_come(
        self, name: str, kind: str, code: str, pinned: Pinned, phone: Phone, place: Path
    ) -> None:
        change = OTHERS.get(name, Other(_updated(name="later"))).change
        key = "foreign" if name == "foreign" else "own"
        files: dict[str, bytes | None] = {"model.pte": bytes(200_000)}
        bundle = signed_copy(pinned.own, place / "in" / "other.edgec", change, files, key)
        if name == "of another bundle":
            (bundle / SIGNATURE).write_bytes((pinned.newer / SIGNATURE).read_bytes())
        opening = sum((bundle / each).stat().st_size for each in ("manifest.json", SIGNATURE))
        split_bundle(bundle, place / "other.parts", 2000)
        with serving(place / "other.parts") as parts:
            said = phone.get(parts.url, place / "x" / "b")
            assert (said.kind, said.code) == (kind, code)
            assert len(parts.asked) == 1 + -(-opening // 2000)
        assert not (place / "x" / "b").exists() and not list((place / "x").rglob("manifest.json"))


def assert_shipped_whole(own: Path, resource: Path) -> None:
    """Assert that a package holds the whole signed bundle, report and signature included."""
    assert open_bundle(resource).manifest == open_bundle(own).manifest
    check_signature(resource, KEY)
