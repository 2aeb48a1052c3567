"""The rung in which ExecuTorch's own multimodal runner writes after images, and the faults that it finds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

import edgec
from edgec.backends.cpu import multimodal_runner
from edgec.backends.cpu.text_runner import Method
from edgec.bundle.findings import Rung
from edgec.bundle.folder import read_manifest
from edgec.bundle.pte_layout import method_names
from edgec.errors import BudgetError
from edgec.exporter.runners.multimodal import NAME
from edgec.exporter.stages import cpu_methods
from edgec.ir.program import Interface
from edgec.ir.row_inputs import INPUT_EMBEDS
from edgec.passes.contract import placeholder
from edgec.runtime_py.runners import executorch_llm
from tests.vision_language import save_vision_language

pytestmark = pytest.mark.long
CONTEXT = 96


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executorch_llm, "AUTOMATIC", True)


def saved(family: str, folder: Path) -> Path:
    """A tiny model whose tokenizer ExecuTorch reads: of the same words, in the form that it knows."""
    path = save_vision_language(family, folder) / "tokenizer.json"
    tokenizer: dict[str, Any] = json.loads(path.read_text())
    known = {name: tokenizer["model"][name] for name in ("vocab", "unk_token")}
    tokenizer["model"] = {"type": "BPE", "merges": [], "ignore_merges": True, **known}
    # Without one, transformers puts spaces between words, and ExecuTorch none.
    tokenizer["decoder"] = {"type": "Fuse"}
    path.write_text(json.dumps(tokenizer))
    return path.parent


def exported(folder: Path, context: int = CONTEXT, **given: Any) -> Path:
    """A bundle; artifacts that are lowered with a fault have contexts of their own, since stages are cached."""
    given = {"recipe": "float", "kernels": "standard", **given}
    return edgec.export(folder, target="host", context=context, out=folder.parent / f"{context}.edgec", **given)


def rung_of(bundle: Path) -> Rung:
    (found,) = [each for each in read_manifest(bundle).parity if each.stage == NAME]
    return found


@pytest.mark.parametrize(
    ("family", "recipe", "kernels"),
    [
        ("llava", "float", "standard"),
        pytest.param("smolvlm", "8bit", "edgec", marks=pytest.mark.slow),
        pytest.param("internvl", "float", "standard", marks=pytest.mark.slow),
    ],
)
def test_the_runner_writes_the_same_words_after_images(family: str, recipe: str, kernels: str, tmp_path: Path) -> None:
    bundle = exported(saved(family, tmp_path / family), recipe=recipe, kernels=kernels)
    found = rung_of(bundle)
    assert found.gated and found.passed and found.in_words and found.positions > 1, found.note
    assert "tokens of 2 texts" in found.note and "MultimodalRunner" in (bundle / "report.html").read_text()
    manifest = read_manifest(bundle)
    # What edgec itself calls is as it was.
    assert [method.name for method in manifest.methods] == ["vision_encoder", "forward"]
    assert {"token_embedding", "text_decoder"} <= set(method_names(bundle / manifest.artifact))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gemma3", "qwen2_vl"])
def test_a_decoder_that_reads_more_than_the_runner_gives_is_told(family: str, tmp_path: Path) -> None:
    more: dict[str, Any] = {"image_size": "40x32"} if family == "qwen2_vl" else {}
    bundle = exported(saved(family, tmp_path / family), **more)
    found = rung_of(bundle)
    assert not found.gated and not found.passed and "all that the runner gives" in found.note
    assert "text_decoder" not in method_names(bundle / read_manifest(bundle).artifact)


@pytest.mark.slow
def test_an_image_of_more_rows_than_a_call_takes_is_told(tmp_path: Path) -> None:
    (recipe := tmp_path / "short.toml").write_text("[limits]\nprefill_chunk = 4\n")
    found = rung_of(exported(saved("llava", tmp_path / "llava"), context=CONTEXT + 1, recipe=str(recipe)))
    assert not found.gated and "and a call takes 4" in found.note


@pytest.mark.slow
def test_another_end_of_texts_ends_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = cpu_methods.runner_facts
    ends = (7,)
    monkeypatch.setattr(cpu_methods, "runner_facts", lambda request: replace(right(request), ends=ends))  # type: ignore[type-var]
    with pytest.raises(BudgetError) as stopped:
        exported(saved("llava", tmp_path / "llava"), context=CONTEXT + 2)
    assert stopped.value.code == "E201" and "get_eos_ids says" in stopped.value.why


@pytest.mark.slow
def test_swapped_rows_end_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = multimodal_runner._text_decoder

    def swapped(graph: GraphModule, interface: Interface) -> Method:
        made, less = right(graph, interface)
        rows = placeholder(made, INPUT_EMBEDS)
        readers = tuple(rows.users)
        with made.graph.inserting_after(placeholder(made, "positions")):
            flipped = made.graph.call_function(torch.ops.aten.flip.default, (rows, [1]))
        for reader in readers:
            reader.replace_input_with(rows, flipped)
        made.recompile()
        return made, less

    monkeypatch.setattr(multimodal_runner, "_text_decoder", swapped)
    with pytest.raises(BudgetError) as stopped:
        exported(saved("llava", tmp_path / "llava"), context=CONTEXT + 3)
    assert stopped.value.code == "E201" and NAME in stopped.value.what
