"""A bundle verifies where it says what it said, and fails with the difference named where it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.bundle.folder import MANIFEST, open_bundle, write_bundle
from edgec.bundle.golden import Golden, golden_bytes, output_vector
from edgec.bundle.golden_texts import chat_vector, text_vectors
from edgec.bundle.manifest import Runtime
from edgec.errors import InputError
from edgec.runtime_py.model import load
from edgec.runtime_py.verify import verify as module
from edgec.runtime_py.verify.report import BundleCheck, VerifyReport
from edgec.runtime_py.verify.verify import runtime_check, verify

PROMPT = [1, 40, 41, 42, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74]


@pytest.fixture(scope="module")
def golden(tiny_bundle: Path) -> Golden:
    """What the tiny bundle says: a prompt longer than a prefill chunk and ten greedy tokens."""
    model = load(tiny_bundle, threads=1)
    rows = [model.session.prefill(PROMPT, 0)]
    tokens = [int(rows[0].argmax())]
    for step in range(9):
        rows.append(model.session.forward([tokens[-1]], len(PROMPT) + step, [0])[0])
        tokens.append(int(rows[-1].argmax()))
    vector = output_vector(PROMPT, tokens, np.stack(rows))
    return Golden(texts=text_vectors(model.tokenizer), chat=chat_vector(model.tokenizer), outputs=(vector,))


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors are replayed here: starting a process takes 1.5 s, and other tests see that it says the same."""
    monkeypatch.setattr(module, "in_another_process", lambda *args, **options: {})


def _with_golden(source: Path, target: Path, golden: Golden | None, **fields: Any) -> Path:
    bundle = open_bundle(source)
    files: dict[str, bytes | Path] = {file.path: source / file.path for file in bundle.manifest.files}
    files.pop("golden.json", None)
    if golden is not None:
        files["golden.json"] = golden_bytes(golden)
    write_bundle(target, bundle.manifest.model_copy(update=fields), files)
    return target


def _statuses(report: VerifyReport) -> dict[str, str]:
    return {check.name: check.status for check in report.checks}


def _failure(report: VerifyReport) -> BundleCheck:
    assert not report.passed
    (failed,) = [check for check in report.checks if check.status == "failed"]
    return failed


@pytest.mark.long
def test_an_intact_bundle_passes_every_check(tiny_bundle: Path, tmp_path: Path, golden: Golden) -> None:
    report = verify(_with_golden(tiny_bundle, tmp_path / "a.edgec", golden), threads=1)
    assert report.passed and report.to_json()["passed"] is True
    names = ["files", "manifest", "artifact", "tokenizer", "chat template", "output vectors"]
    assert {name: _statuses(report)[name] for name in names} == dict.fromkeys(names, "passed")


@pytest.mark.usefixtures("in_this_process")
def test_without_golden_vectors_nothing_is_claimed(tiny_bundle: Path, tmp_path: Path) -> None:
    report = verify(_with_golden(tiny_bundle, tmp_path / "a.edgec", None), threads=1)
    assert report.passed
    assert {_statuses(report)[name] for name in ("tokenizer", "chat template", "output vectors")} == {"unavailable"}


@pytest.mark.usefixtures("in_this_process")
def test_another_token_is_found_unless_it_was_a_close_call(tiny_bundle: Path, tmp_path: Path, golden: Golden) -> None:
    vector = golden.outputs[0]
    last = vector.continuation_ids[-1]
    other = [*vector.continuation_ids[:-1], (last + 1) % 300]
    margins = [*vector.margins[:-1], vector.tolerance * 2]
    wrong = vector.model_copy(update={"continuation_ids": other, "margins": margins})
    failed = _failure(verify(_with_golden(tiny_bundle, tmp_path / "a.edgec", Golden(outputs=(wrong,))), threads=1))
    assert failed.name == "output vectors" and f"continues with {last} instead of {(last + 1) % 300}" in failed.detail
    close = wrong.model_copy(update={"margins": [*margins[:-1], vector.tolerance / 2]})
    assert verify(_with_golden(tiny_bundle, tmp_path / "b.edgec", Golden(outputs=(close,))), threads=1).passed


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("which", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_logit_beyond_the_tolerance_is_found(tiny_bundle: Path, tmp_path: Path, golden: Golden, which: int) -> None:
    vector = golden.outputs[0]
    probe = vector.probes[which]
    for factor, passes in ((0.9, True), (1.1, False)):
        moved = [*probe.logits[:-1], probe.logits[-1] + factor * vector.tolerance]
        probes = list(vector.probes)
        probes[which] = probe.model_copy(update={"logits": moved})
        changed = Golden(outputs=(vector.model_copy(update={"probes": probes}),))
        report = verify(_with_golden(tiny_bundle, tmp_path / f"{passes}.edgec", changed), threads=1)
        assert report.passed is passes
    assert "moved by" in _failure(report).detail and f"position {probe.position}" in _failure(report).detail


@pytest.mark.usefixtures("in_this_process")
def test_another_tokenisation_is_found(tiny_bundle: Path, tmp_path: Path, golden: Golden) -> None:
    text = golden.texts[0].model_copy(update={"ids": [*golden.texts[0].ids[:-1], 3]})
    changed = golden.model_copy(update={"texts": (text, *golden.texts[1:])})
    failed = _failure(verify(_with_golden(tiny_bundle, tmp_path / "a.edgec", changed), threads=1))
    assert failed.name == "tokenizer" and "'english'" in failed.detail


@pytest.mark.usefixtures("in_this_process")
def test_another_chat_template_is_found(tiny_bundle: Path, tmp_path: Path, golden: Golden) -> None:
    assert golden.chat is not None
    changed = golden.model_copy(update={"chat": golden.chat.model_copy(update={"rendered": "other"})})
    failed = _failure(verify(_with_golden(tiny_bundle, tmp_path / "a.edgec", changed), threads=1))
    assert failed.name == "chat template"


@pytest.mark.long
def test_a_vector_beyond_the_context_fails_and_does_not_crash(
    tiny_bundle: Path, tmp_path: Path, golden: Golden
) -> None:
    long = golden.outputs[0].model_copy(update={"prompt_ids": PROMPT * 20})
    failed = _failure(verify(_with_golden(tiny_bundle, tmp_path / "a.edgec", Golden(outputs=(long,))), threads=1))
    assert failed.name == "output vectors" and "context" in failed.detail


@pytest.mark.long
def test_an_artifact_the_runtime_refuses_fails(tiny_bundle: Path, tmp_path: Path) -> None:
    bundle = open_bundle(tiny_bundle)
    files: dict[str, bytes | Path] = {file.path: tiny_bundle / file.path for file in bundle.manifest.files}
    write_bundle(tmp_path / "a.edgec", bundle.manifest, {**files, bundle.manifest.artifact: b"no program" * 50})
    assert _failure(verify(tmp_path / "a.edgec", threads=1)).name == "artifact"


def test_a_damaged_bundle_is_refused(tiny_bundle: Path, tmp_path: Path, golden: Golden) -> None:
    path = _with_golden(tiny_bundle, tmp_path / "a.edgec", golden)
    (path / MANIFEST).write_bytes((path / MANIFEST).read_bytes()[:-1])
    with pytest.raises(InputError):
        verify(path)


def test_another_runtime_is_a_warning_and_none_is_unavailable() -> None:
    required: dict[str, list[str]] = {"backends": [], "operators": []}
    older = runtime_check(Runtime.model_validate({"name": "executorch", "version": "0.0.1", **required}))
    assert older.status == "warning" and "0.0.1" in older.detail
    absent = runtime_check(Runtime.model_validate({"name": "no-such-runtime", "version": "1", **required}))
    assert absent.status == "unavailable"
