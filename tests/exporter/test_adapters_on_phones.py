"""A decoder of 4 bits exported for Core ML with functions under two adapters: bytes, ladder, numbers and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgec
from edgec.bundle.findings import Rung
from edgec.bundle.folder import open_bundle
from edgec.cli.app import run_cli
from edgec.errors import InputError
from edgec.exporter.parity.ladder import UNTRAINED_HALF_LOWERING, Stage, lowering_rung
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.rounding.weight_grid import quantize_weight
from edgec.runtime_py.adapters.peft_folder import folder_digest
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.verify.verify import verify
from tests.runtime_py.adapters.loras import ATTENTION, EVERY, Pairs, changed, logits_of, pairs, write_lora

pytestmark = pytest.mark.slow

RECIPE = """
algorithm = "rtn"

[weights]
bits = 4
group_size = 0

[lm_head]
bits = 8
group_size = 0

[cache]
dtype = "float16"

[limits]
context = 128
prefill_chunk = 16

[budgets]
kl_mean = 5.0
top1_agreement = 0.0
"""
TOKENS = [1, *(7 * i % 89 + 5 for i in range(47))]
# Two chunks, a part of one, and single tokens.
CALLS = (16, 16, 5, 1, 1, 1, 1, 1, 1)
WEIGHTS = "Data/com.apple.CoreML/weights/weight.bin"
# Each stored array begins at a multiple of 64 bytes, after a header of 64.
AROUND = 128


@dataclass(frozen=True)
class Exported:
    """The bundles of one model without and with adapters, and the folders and matrices of these."""

    plain: Path
    bundle: Path
    folders: dict[str, Path]
    changes: dict[str, tuple[Pairs, float]]


@pytest.fixture(scope="module")
def exported(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("adapted")
    (folder / "own.toml").write_text(RECIPE)
    small, large = pairs(ATTENTION, 4, seed=1), pairs(EVERY, 6, seed=2)
    every = [module.rpartition(".")[2] for module in EVERY]
    folders = {
        "pirate": write_lora(folder / "pirate-lora", small),
        "poet_2": write_lora(folder / "poet-lora", large, r=6, lora_alpha=5, use_rslora=True, target_modules=every),
    }
    where: dict[str, Any] = {"target": "iphone", "format": "mlpackage", "recipe": folder / "own.toml"}
    plain = edgec.export(tiny_folder, **where, out=folder / "plain.edgec")
    bundle = edgec.export(tiny_folder, **where, adapters=folders, out=folder / "adapted.edgec")
    return Exported(plain, bundle, folders, {"pirate": (small, 4.0), "poet_2": (large, 5 / 6**0.5)})


def rounded_model(folder: Path) -> Any:
    """The model of a folder in transformers, its matrices rounded as RECIPE says."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            scheme = WeightScheme(8, 0) if name == "lm_head" else WeightScheme(4, 0)
            layer.weight.data = quantize_weight(layer.weight.detach(), scheme, "rtn").dequantize()
    return model


def called(session: Session, tokens: Sequence[int] = TOKENS) -> Tensor:
    """The logits after each call of CALLS, float32 [calls, vocabulary]."""
    rows, start = [], 0
    for size in CALLS:
        part = tokens[start : start + size]
        rows.append(torch.from_numpy(session.forward(part, start, [size - 1])[0].copy()))
        start += size
    return torch.stack(rows)


def ends(logits: Tensor) -> Tensor:
    """Of the logits of every position, those after each call."""
    return logits[torch.tensor(CALLS).cumsum(0) - 1]


def same(reference: Tensor, executed: Tensor) -> Rung:
    return lowering_rung(Stage("torch", reference), Stage("session", executed), UNTRAINED_HALF_LOWERING, rounded=True)


def test_the_artifact_has_each_method_once_more_under_each_adapter(exported: Exported) -> None:
    from edgec.backends.coreml.interpreter.proto import read_spec

    bundle = open_bundle(exported.bundle)
    functions = set(read_spec(bundle.artifact_path).mlProgram.functions)
    assert functions == {f"{method}{end}" for method in ("prefill", "decode") for end in ("", "_pirate", "_poet_2")}
    assert [method.name for method in bundle.manifest.methods] == ["prefill", "decode"]
    assert bundle.manifest.states == open_bundle(exported.plain).manifest.states


def test_the_manifest_says_what_its_adapters_are(exported: Exported) -> None:
    pirate, poet = open_bundle(exported.bundle).manifest.adapters
    assert (pirate.name, pirate.ranks, len(pirate.modules), pirate.trained_on) == ("pirate", [4], 4, "tiny-llama")
    assert (poet.name, poet.ranks, len(poet.modules)) == ("poet_2", [6], 14)
    assert pirate.digest == folder_digest(exported.folders["pirate"]) != poet.digest
    for one, (changes, _) in zip((pirate, poet), exported.changes.values(), strict=True):
        assert one.bytes == sum(2 * (a.numel() + b.numel()) for a, b in changes.values())


def test_the_base_is_stored_once(exported: Exported) -> None:
    plain, adapted = (open_bundle(path).artifact_path / WEIGHTS for path in (exported.plain, exported.bundle))
    manifest = open_bundle(exported.bundle).manifest
    added = sum(adapter.bytes for adapter in manifest.adapters)
    tensors = sum(2 * len(adapter.modules) for adapter in manifest.adapters)
    growth = adapted.stat().st_size - plain.stat().st_size
    assert added <= growth <= added + AROUND * tensors


def test_the_ledger_names_what_adapters_take(exported: Exported) -> None:
    manifest, plain = open_bundle(exported.bundle).manifest, open_bundle(exported.plain).manifest
    assert manifest.ledger and plain.ledger
    for adapter in manifest.adapters:
        rows = [row for row in manifest.ledger.rows if f".{adapter.name}_lora_" in row.name]
        assert sum(row.bytes for row in rows) == adapter.bytes and {row.copies for row in rows} == {1}
    # A token of the model as it is reads nothing of them.
    assert manifest.ledger.active_bytes == plain.ledger.active_bytes


def test_the_ladder_goes_on_under_each_adapter(exported: Exported) -> None:
    rungs = open_bundle(exported.bundle).manifest.parity
    for name in ("pirate", "poet_2"):
        own = [rung for rung in rungs if rung.stage.startswith(f"adapter {name}: ")]
        assert [rung.stage.rpartition(": ")[2] for rung in own] == ["add_adapter", "static methods", "artifact"]
        changes, graphs, artifact = own
        assert not changes.gated and changes.kl_mean and changes.kl_mean > 0.01
        assert graphs.gated and graphs.passed and graphs.kl_mean is not None and graphs.kl_mean < 1e-6
        assert artifact.gated and artifact.passed and artifact.budget["kl_mean"] <= 1e-3 and artifact.positions > 10


def test_sessions_compute_what_torch_computes_over_the_rounded_base(exported: Exported, tiny_folder: Path) -> None:
    session, model = Session(exported.bundle), rounded_model(tiny_folder)
    assert same(ends(logits_of(model, TOKENS)), called(session)).passed
    for name, (changes, scale) in exported.changes.items():
        session.adapter = name
        with changed(model, changes, scale):
            reference = ends(logits_of(model, TOKENS))
        assert same(reference, called(session)).passed
        assert not same(ends(logits_of(model, TOKENS)), called(session)).passed


def test_sessions_compute_what_peft_computes_over_the_rounded_base(exported: Exported, tiny_folder: Path) -> None:
    peft, session = pytest.importorskip("peft"), Session(exported.bundle)
    for name, folder in exported.folders.items():
        session.adapter = name
        model = peft.PeftModel.from_pretrained(rounded_model(tiny_folder), folder).eval()
        assert same(ends(logits_of(model, TOKENS)), called(session)).passed


def test_another_adapter_empties_the_cache_and_the_first_gives_the_same_bits_again(exported: Exported) -> None:
    session = Session(exported.bundle)
    plain = called(session)
    session.adapter = "pirate"
    assert session.cache.tokens == [] and session.adapter == open_bundle(exported.bundle).manifest.adapters[0]
    under = called(session)
    session.adapter = "pirate"  # the same one: nothing is emptied
    assert len(session.cache.tokens) == sum(CALLS)
    session.adapter = None
    assert session.cache.tokens == [] and torch.equal(called(session), plain)
    session.adapter = "pirate"
    assert torch.equal(called(session), under) and not torch.equal(under, plain)


def test_an_unknown_name_is_refused_with_those_that_there_are(exported: Exported) -> None:
    session = Session(exported.bundle)
    session.adapter = "pirate"
    called(session)
    with pytest.raises(InputError, match="E767") as caught:
        session.adapter = "cowboy"
    assert "pirate, poet_2" in caught.value.why
    assert session.adapter is not None and len(session.cache.tokens) == sum(CALLS)
    with pytest.raises(InputError, match="E767") as caught:
        Session(exported.plain).adapter = "pirate"
    assert "without adapters" in caught.value.why


def test_the_bundle_verifies_and_models_generate_under_a_name(
    exported: Exported, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(exported.bundle).passed
    model = edgec.load(exported.bundle)
    plain = model.generate(TOKENS, max_new_tokens=8).tokens
    model.adapter = "poet_2"
    assert model.generate(TOKENS, max_new_tokens=8).tokens != plain
    assert model.new_session().session.adapter == model.adapter
    said = [_said(capsys, exported.bundle, *more) for more in ((), ("--adapter", "poet_2"))]
    assert said[0] and said[1] and said[0] != said[1]


def _said(capsys: pytest.CaptureFixture[str], bundle: Path, *more: str) -> str:
    assert run_cli(["run", str(bundle), "-p", "hello", "--raw", "--max-new-tokens", "12", *more]) == 0
    return capsys.readouterr().out


def test_inspect_shows_them(exported: Exported, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["inspect", str(exported.bundle)]) == 0
    shown = capsys.readouterr().out
    assert "Adapters" in shown and "poet_2" in shown


def test_a_file_cannot_be_made_for_it(exported: Exported, tmp_path: Path) -> None:
    from edgec.runtime_py.adapters.make import make_adapter

    with pytest.raises(InputError, match="E690") as caught:
        make_adapter(exported.bundle, exported.folders["pirate"], tmp_path / "x.adapter")
    assert "pirate, poet_2" in caught.value.why


@pytest.mark.slow
@pytest.mark.parametrize("format", ["aimodel", "pte"])
def test_other_formats_hold_functions_under_adapters(
    format: str, exported: Exported, tiny_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text(RECIPE)
    where: dict[str, Any] = {"target": "iphone", "format": format, "recipe": tmp_path / "own.toml"}
    plain = open_bundle(edgec.export(tiny_folder, **where, out=tmp_path / "plain.edgec")).manifest
    bundle = edgec.export(tiny_folder, **where, adapters=exported.folders, out=tmp_path / "x.edgec")
    manifest, session = open_bundle(bundle).manifest, Session(bundle)
    assert manifest.ledger and plain.ledger
    stored = [sum(row.bytes for row in each.ledger.rows) for each in (plain, manifest) if each.ledger]
    added = sum(adapter.bytes for adapter in manifest.adapters)
    # Core AI's small constants lie in its program: in either format the base is stored once.
    assert (0 if format == "aimodel" else added) <= stored[1] - stored[0] <= 1.05 * added < stored[0]
    model = rounded_model(tiny_folder)
    for name, (changes, scale) in exported.changes.items():
        session.adapter = name
        with changed(model, changes, scale):
            assert same(ends(logits_of(model, TOKENS)), called(session)).passed


@pytest.mark.slow
def test_a_model_in_several_packages_is_cut_at_the_same_places_under_each_adapter(
    exported: Exported, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgec.backends.coreml import mlpackage

    monkeypatch.setattr(mlpackage, "PART_BYTES", 26_000)
    monkeypatch.setattr(mlpackage, "_UNEVEN", 2.0)
    (tmp_path / "own.toml").write_text(RECIPE.replace("context = 128", "context = 96"))
    where: dict[str, Any] = {"target": "iphone", "format": "mlpackage", "recipe": tmp_path / "own.toml"}
    bundle = edgec.export(tiny_folder, **where, adapters=exported.folders, out=tmp_path / "x.edgec")
    assert len(mlpackage.packages(open_bundle(bundle).artifact_path)) > 1
    session, model = Session(bundle), rounded_model(tiny_folder)
    for name, (changes, scale) in exported.changes.items():
        session.adapter = name
        with changed(model, changes, scale):
            assert same(ends(logits_of(model, TOKENS)), called(session)).passed
