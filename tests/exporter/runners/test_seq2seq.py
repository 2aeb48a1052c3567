"""The rung that follows ExecuTorch's speech runner after sounds, and the faults that it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx import Node

import edgec
from edgec.backends.cpu import speech_runner
from edgec.backends.cpu.text_runner import Method
from edgec.bundle.findings import Rung
from edgec.bundle.folder import read_manifest
from edgec.bundle.pte_layout import method_names
from edgec.errors import BudgetError, InputError
from edgec.exporter.stages import cpu_methods
from edgec.passes.contract import placeholder
from edgec.runtime_py.runners import executorch_llm
from edgec.runtime_py.runners.seq2seq import NAME
from tests.encoder_decoder_methods import save_talking_whisper
from tests.encoder_decoders import save_encoder_decoder

pytestmark = pytest.mark.long
CONTEXT = 48


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executorch_llm, "AUTOMATIC", True)


def exported(folder: Path, context: int = CONTEXT, **given: Any) -> Path:
    """A bundle; artifacts that are lowered with a fault have contexts of their own, since stages are cached."""
    given = {"recipe": "float", **given}
    return edgec.export(folder, target="host", context=context, out=folder.parent / f"{context}.edgec", **given)


def rung_of(bundle: Path) -> Rung:
    (found,) = [each for each in read_manifest(bundle).parity if each.stage == NAME]
    return found


@pytest.mark.parametrize("kernels", ["edgec", pytest.param("standard", marks=pytest.mark.slow)])
def test_the_loop_writes_the_same_tokens(kernels: str, tmp_path: Path) -> None:
    bundle = exported(save_talking_whisper(tmp_path / "whisper"), kernels=kernels)
    found, manifest = rung_of(bundle), read_manifest(bundle)
    assert found.gated and found.passed and found.positions == 48 and found.top1_agreement == 1.0, found.note
    assert "48 tokens of 2 texts" in found.note and "followed in Python" in found.note
    assert "not run as the C++ class" in (bundle / "report.html").read_text()
    # What edgec itself calls is as it was.
    assert [method.name for method in manifest.methods] == ["encode", "cross", "forward"]
    assert {"encoder", "text_decoder", "get_eos_ids"} <= set(method_names(bundle / manifest.artifact))
    assert any(name.startswith("edgec::") for name in manifest.runtime.operators) == (kernels == "edgec")


@pytest.mark.slow
@pytest.mark.parametrize(("family", "reads"), [("t5", "tokens"), ("moonshine", "samples")])
def test_a_model_that_reads_something_else_is_told(family: str, reads: str, tmp_path: Path) -> None:
    bundle = exported(save_encoder_decoder(family, tmp_path / family))
    found = rung_of(bundle)
    assert not found.gated and not found.passed and f"its encoder reads {reads}" in found.note
    assert not {"text_decoder", "get_eos_ids"} & set(method_names(bundle / read_manifest(bundle).artifact))


def test_standard_kernels_are_refused_for_models_that_read_text(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        exported(save_encoder_decoder("t5", tmp_path / "t5"), kernels="standard")
    assert refused.value.code == "E534" and refused.value.where == "--kernels"


@pytest.mark.slow
def test_another_end_of_texts_ends_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = cpu_methods.runner_facts
    monkeypatch.setattr(cpu_methods, "runner_facts", lambda request: replace(right(request), ends=(7,)))  # type: ignore[type-var]
    with pytest.raises(BudgetError) as stopped:
        exported(save_talking_whisper(tmp_path / "whisper"), context=CONTEXT + 1)
    assert stopped.value.code == "E201" and "get_eos_ids says" in stopped.value.why


def _put_before(reader: Callable[[Node], Node], node: Node) -> None:
    """Let all readers of a node read what is made of it."""
    readers = tuple(node.users)
    made = reader(node)
    for each in readers:
        each.replace_input_with(node, made)


def _later(method: Method) -> Method:
    """Positions one too high."""
    graph, interface = method
    positions = placeholder(graph, "positions")
    with graph.graph.inserting_after(positions):
        _put_before(lambda node: graph.graph.call_function(torch.ops.aten.add.Tensor, (node, 1)), positions)
    graph.recompile()
    return graph, interface


def _turned_values(method: Method) -> Method:
    """The values of the encoder in another order than the keys; both in another order would be the same attention."""
    graph, interface = method
    attention = torch.ops.edgec.encoder_attention.default
    for node in [each for each in graph.graph.nodes if each.target is attention]:
        with graph.graph.inserting_before(node):
            node.update_arg(2, graph.graph.call_function(torch.ops.aten.flip.default, (node.args[2], [1])))
    graph.recompile()
    return graph, interface


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "context"), [(_later, CONTEXT + 2), (_turned_values, CONTEXT + 3)])
def test_a_wrong_text_decoder_ends_the_export(
    fault: Callable[[Method], Method], context: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = speech_runner._text_decoder
    monkeypatch.setattr(speech_runner, "_text_decoder", lambda cross, forward: fault(right(cross, forward)))
    with pytest.raises(BudgetError) as stopped:
        exported(save_talking_whisper(tmp_path / "whisper"), context=context)
    assert stopped.value.code == "E201" and NAME in stopped.value.what


@pytest.mark.slow
def test_features_in_another_order_end_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = speech_runner._encoder

    def turned(encode: Method) -> Method:
        graph, interface = right(encode)
        features = placeholder(graph, "input_features")
        with graph.graph.inserting_after(features):
            _put_before(lambda node: graph.graph.call_function(torch.ops.aten.flip.default, (node, [2])), features)
        graph.recompile()
        return graph, interface

    monkeypatch.setattr(speech_runner, "_encoder", turned)
    with pytest.raises(BudgetError) as stopped:
        exported(save_talking_whisper(tmp_path / "whisper"), context=CONTEXT + 4)
    assert stopped.value.code == "E201" and NAME in stopped.value.what
