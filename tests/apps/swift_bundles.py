"""Bundles for the generated Swift to run with a scripted model: a good one, and damaged copies of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from edgec.bundle.entry_points import Limits
from edgec.bundle.folder import write_bundle
from edgec.bundle.golden import Golden, OutputVector, golden_bytes
from edgec.bundle.golden_texts import ChatVector, TextVector
from edgec.bundle.manifest import Manifest, PrefixInfo
from edgec.bundle.shipped_adapters import ShippedAdapter
from tests.apps import swift_cases as python
from tests.apps.ios_bundles import CHUNK, CONTEXT, caller_methods, decoder_manifest
from tests.bundle.bundle_samples import sample_manifest

LIMITS = Limits(context=CONTEXT, prefill_chunk=CHUNK, logit_rows=1)
# Two methods of fixed shape whose caches the kit holds, and one of any length with its own ring.
KINDS = {"static": ("pte", caller_methods()), "dynamic": ("pte-cpu", sample_manifest().methods)}
PIRATE = ShippedAdapter(name="pirate", digest="0" * 64, ranks=[4], modules=["lm_head"], bytes=64)
# Outside iOS the kit asks nobody for memory.
_THERE, _HERE = "#if os(iOS) && !targetEnvironment(simulator)", "#if true"


def for_linux(sources: Path) -> None:
    """Change what a kit asks of the system, so that it runs on Linux."""
    check = sources / "MemoryCheck.swift"
    assert _THERE in check.read_text()
    check.write_text(check.read_text().replace(_THERE, _HERE))
    any_version(sources)


def any_version(sources: Path) -> None:
    """Let a kit run on Linux, whose version is below any iOS."""
    facts = sources / "Resources" / "facts.json"
    known = json.loads(facts.read_text())
    known["model"]["minimumOS"] = [0, 0]
    facts.write_text(json.dumps(known))


def run_manifest(kind: str) -> Manifest:
    """The manifest of a decoder in one of KINDS."""
    form, methods = KINDS[kind]
    sample = decoder_manifest(form, methods=methods, limits=LIMITS)
    prefix = PrefixInfo(form="chat", tokens=1, bytes=1, text="prefix/system.txt", state="prefix/kv", fingerprint="0")
    model = sample.model.model_copy(update={"vocab_size": python.VOCABULARY})
    adapters = [] if kind == "dynamic" else [PIRATE]
    return sample.model_copy(update={"prefix": prefix, "model": model, "adapters": adapters})


def _golden() -> Golden:
    """Golden vectors whose second continuation is wrong, but led by less than the tolerance."""
    right = [python.rule([9, 8]), python.rule([9, 8, python.rule([9, 8])])]
    vectors = [
        OutputVector(prompt_ids=[9, 8], continuation_ids=ids, margins=margins, probes=[], tolerance=0.1)
        for ids, margins in ((right, [5.0, 5.0]), ([0, 0], [0.05, 0.05]))
    ]
    turn = {"role": "user", "content": "Hi"}
    rendered = python.chat(("user", "Hi"))
    return Golden(
        texts=(TextVector(label="accent", text="é", ids=python.ids("é"), round_trip=True),),
        chat=ChatVector(messages=[turn], rendered=python.decode(rendered), ids=rendered),
        outputs=tuple(vectors),
    )


def write_good(folder: Path, kind: str) -> Path:
    """Write a complete bundle with placeholder bytes as its artifact."""
    files = {
        "model.pte": bytes(range(256)) * 16,
        "golden.json": golden_bytes(_golden()),
        "generation_config.json": json.dumps({"eos_token_id": python.END_OF_TEXT}).encode(),
        "tokenizer/tokenizer.json": b"{}",
        "tokenizer/tokenizer_config.json": b"{}",
        "prefix/system.txt": python.SYSTEM.encode(),
        "prefix/kv": b"state",
    }
    write_bundle(folder, run_manifest(kind), files)
    return folder


def _altered(bundle: Path, name: str) -> Path:
    folder = bundle.with_name(name)
    shutil.copytree(bundle, folder)
    return folder


def write_broken(bundle: Path) -> None:
    """Write damaged copies: a changed byte, a missing byte, a missing file, a missing manifest, another manifest."""
    artifact = _altered(bundle, "flipped") / "model.pte"
    artifact.write_bytes(artifact.read_bytes()[:99] + b"\xff" + artifact.read_bytes()[100:])
    artifact = _altered(bundle, "short") / "model.pte"
    artifact.write_bytes(artifact.read_bytes()[:-1])
    (_altered(bundle, "missing") / "model.pte").unlink()
    (_altered(bundle, "bare") / "manifest.json").unlink()
    manifest = _altered(bundle, "other manifest") / "manifest.json"
    manifest.write_text(manifest.read_text().replace("pte", "PTE", 1))
