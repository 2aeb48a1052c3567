"""Models with recurrences exported for fixed shapes: what the executed artifact says, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import edgec
from edgec.bundle.folder import open_bundle
from edgec.bundle.manifest import Manifest
from edgec.devices.prediction.parameters import STATE_FORMS
from edgec.errors import InputError
from edgec.exporter.dimensions.parameters import decoder_shape, read_config
from edgec.runtime_py.sessions.session import Session
from tests.families import build, save
from tests.state_families import STATE_FAMILIES

FAMILIES = {family.name: family for family in STATE_FAMILIES}
ONNX, PACKAGE = ("host", "onnx"), ("iphone", "mlpackage")
# Float32 in another order; float16 has 11 bits, and states sum over the text.
TOLERANCES = {ONNX: 1e-4, PACKAGE: 2e-2}
# One row in 26 of Qwen3.5 moves by 4.2 %, the median by 0.35 %: docs/recurrences.md tells what was found of it.
SINGLE_ROWS = {("qwen3_5_text", PACKAGE): 6e-2}
# One for each operator; granitemoehybrid has attention beside its states.
OPERATORS = ("lfm2", "mamba2", "mamba", "recurrent_gemma", "rwkv", "qwen3_5_text")
PLACES = [
    *((name, ONNX) for name in (*OPERATORS, "xlstm")),
    *((name, PACKAGE) for name in (*OPERATORS, "granitemoehybrid")),
]
CASES = [pytest.param(case, marks=pytest.mark.slow) for case in PLACES]
# Whole chunks and a part of one; shorter than a filter.
PROMPTS = (150, 2)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1][1]}")
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    """A family's name, where it was exported for, and its float bundle."""
    name, where = request.param
    folder = tmp_path_factory.mktemp(name)
    model = save(FAMILIES[name], folder / name)
    target, format = where
    options: dict[str, Any] = {"target": target, "format": format, "recipe": "float", "context": 256}
    return name, where, edgec.export(model, **options, out=folder / "x.edgec")


def text_of(length: int) -> list[int]:
    tokens: list[int] = torch.randint(3, 128, (length,), generator=torch.Generator().manual_seed(length)).tolist()
    return tokens


@torch.no_grad()
def wanted(name: str, text: list[int], first: int) -> Tensor:
    """Logits of transformers' forward over the whole text, from the token ``first`` on."""
    model: Any = build(FAMILIES[name], "eager")
    logits: Tensor = model(torch.tensor([text]), use_cache=False).logits[0, first:]
    return logits


def said(session: Session, text: list[int], prompt: int) -> Tensor:
    """Logits after the prompt and after each token that follows it, fed one by one."""
    rows = [session.prefill(text[:prompt], 0)]
    rows += [session.prefill(text[at : at + 1], at) for at in range(prompt, len(text))]
    return torch.stack([torch.from_numpy(row) for row in rows])


def test_prefill_and_decode_sequence_after_sequence(exported: tuple[str, Any, Path]) -> None:
    name, where, bundle = exported
    session = Session(bundle)
    for prompt in PROMPTS:
        text = text_of(prompt + 12)
        right = wanted(name, text, prompt - 1)
        rows = (said(session, text, prompt) - right).abs().amax(-1) / right.abs().max()
        assert float(rows.median()) < TOLERANCES[where] / 2
        assert float(rows.max()) < SINGLE_ROWS.get((name, where), TOLERANCES[where])


def test_a_state_goes_on_or_begins_again_and_never_goes_back(exported: tuple[str, Any, Path]) -> None:
    session, text = Session(exported[2]), text_of(24)
    first = session.prefill(text, 0)
    for start in (8, 23, 25):
        with pytest.raises(InputError) as refused:
            session.forward(text[:1], start, (0,))
        assert refused.value.code == "E153"
    assert session.reusable([*text, 7]) == 24 and session.reusable([*text[:20], 7]) == 0
    assert (session.prefill(text, 0) == first).all()


def test_a_row_before_the_last_token_takes_each_token_in_once(exported: tuple[str, Any, Path]) -> None:
    _, where, bundle = exported
    session, text = Session(bundle), text_of(9)
    session.forward(text[:8], 0, (3,))
    row, fresh = session.forward(text[8:], 8, (0,)), Session(bundle)
    right = fresh.prefill(text, 0)
    assert abs(row[0] - right).max() < TOLERANCES[where] * abs(right).max()


def test_the_manifest_describes_one_slot_for_each_recurrence(exported: tuple[str, Any, Path]) -> None:
    manifest: Manifest = open_bundle(exported[2]).manifest
    held = [state for state in manifest.states if state.layout == "recurrent"]
    assert held and all(state.slots == 1 and len(state.shape) == 4 for state in held)
    assert {state.dtype for state in held} == {"float32" if exported[1] == ONNX else "float16"}


def test_the_plan_counts_what_the_states_take(exported: tuple[str, Any, Path]) -> None:
    planned = decoder_shape(read_config(exported[2].parent / exported[0])).states
    held = [state.bytes for state in open_bundle(exported[2]).manifest.states if state.layout == "recurrent"]
    form = STATE_FORMS["onnx" if exported[1] == ONNX else "coreml"]
    assert planned and sum(state.bytes(form) for state in planned) == sum(held)


@pytest.mark.parametrize(("target", "why"), [("snapdragon-8-elite", "integers"), ("android-gpu", "execute")])
def test_targets_without_a_place_for_states_are_refused_before_any_work(
    target: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(FAMILIES["lfm2"], tmp_path / "lfm2")
    monkeypatch.setattr("torch.export.export", lambda *_, **__: pytest.fail("it was traced"))
    with pytest.raises(InputError) as refused:
        edgec.export(folder, target=target, out=tmp_path / "x.edgec")
    assert refused.value.code == "E528" and "conv" in refused.value.where and why in refused.value.why


def test_gates_beyond_float16_are_refused_before_tracing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(FAMILIES["xlstm"], tmp_path / "xlstm")
    monkeypatch.setattr("torch.export.export", lambda *_, **__: pytest.fail("it was traced"))
    with pytest.raises(InputError) as refused:
        edgec.export(folder, target="iphone", out=tmp_path / "x.edgec")
    assert refused.value.code == "E528" and "float16" in refused.value.why


def test_a_decay_for_each_key_is_refused_before_tracing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.coverage_parts.tiny import tiny_config, tiny_model

    tiny_model(tiny_config("kimi_linear")).save_pretrained(tmp_path / "kimi")
    monkeypatch.setattr("torch.export.export", lambda *_, **__: pytest.fail("it was traced"))
    monkeypatch.setattr("edgec.exporter.resolve.unheld.experts_of", lambda _: 0)
    with pytest.raises(InputError) as refused:
        edgec.export(tmp_path / "kimi", target="iphone", out=tmp_path / "x.edgec")
    assert refused.value.code == "E513"
