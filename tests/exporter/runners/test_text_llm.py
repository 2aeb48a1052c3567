"""The rung in which ExecuTorch's own runner writes texts by the artifact, and the faults that it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch.fx import GraphModule

import edgec
from edgec.backends.cpu import text_runner
from edgec.bundle.findings import Rung
from edgec.bundle.folder import read_manifest
from edgec.errors import BudgetError
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners import executorch
from edgec.exporter.runners import text_llm as rung
from edgec.exporter.runners.texts import RunnerText, runner_texts
from edgec.exporter.stages import cpu_methods
from edgec.runtime_py.runners import executorch_llm
from edgec.runtime_py.runners.executorch_llm import runner_name
from tests.families import FAMILIES, save
from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer

NAME = runner_name("TextLLMRunner")
EXAMPLE = Path(__file__).parents[3] / "examples" / "tiny-stories"
STORIES = Path(__file__).parents[4] / "shared" / "data" / "models" / "stories260K"


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executorch_llm, "AUTOMATIC", True)


def exported(out: Path, context: int = 256, **given: Any) -> Path:
    """A bundle; artifacts that are lowered with a fault have contexts of their own, since stages are cached."""
    return edgec.export(EXAMPLE, target="host", recipe="8bit", context=context, out=out, **given)


def rungs_of(bundle: Path) -> list[Rung]:
    return [each for each in read_manifest(bundle).parity if each.stage == NAME]


@pytest.mark.long
@pytest.mark.parametrize("kernels", ["edgec", pytest.param("standard", marks=pytest.mark.slow)])
def test_the_runner_writes_the_same_words(kernels: str, tmp_path: Path) -> None:
    bundle = exported(tmp_path / "x.edgec", kernels=kernels)
    (found,) = rungs_of(bundle)
    # 24 tokens after a few words, and 24 after a text longer than a chunk.
    assert found.positions == 48 and found.top1_agreement == 1.0 and found.gated and found.in_words
    assert "48 tokens of 2 texts" in found.note and "TextLLMRunner" in (bundle / "report.html").read_text()


@pytest.mark.long
@pytest.mark.shared_data
@pytest.mark.skipif(not STORIES.is_dir(), reason="../shared/data is absent")
def test_a_runner_that_writes_no_spaces_does_not_refuse_a_healthy_model(tmp_path: Path) -> None:
    (found,) = rungs_of(edgec.export(STORIES, target="host", out=tmp_path / "x.edgec"))
    assert found.passed and found.gated and "without spaces" in found.note


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", ["gemma3_text", "qwen3"])
def test_windows_and_a_tokenizer_that_begins_texts_are_understood(name: str, tmp_path: Path) -> None:
    (family,) = [each for each in FAMILIES if each.name == name]
    folder = save(replace(family, options={**family.options, "vocab_size": VOCAB}), tmp_path / name)
    tiny_tokenizer().save_pretrained(folder)
    (found,) = rungs_of(edgec.export(folder, target="host", recipe="8bit", out=tmp_path / "x.edgec"))
    assert found.passed and found.gated and found.positions > 0, "random weights may soon write half a character"


def _ends_elsewhere(facts: text_runner.RunnerFacts) -> text_runner.RunnerFacts:
    return replace(facts, ends=tuple(end + 1 for end in facts.ends))


def _one_more_a_call(facts: text_runner.RunnerFacts) -> text_runner.RunnerFacts:
    return replace(facts, chunk=facts.chunk + 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_ends_elsewhere, "get_eos_ids says"),
        pytest.param(_one_more_a_call, "get_max_seq_len says", marks=pytest.mark.slow),
    ],
)
def test_wrong_facts_end_the_export(
    change: Callable[[Any], Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = cpu_methods.runner_facts
    monkeypatch.setattr(cpu_methods, "runner_facts", lambda request: change(right(request)))
    with pytest.raises(BudgetError) as stopped:
        exported(tmp_path / "x.edgec", context=200 + len(said))
    assert stopped.value.code == "E201" and said in stopped.value.why and not (tmp_path / "x.edgec").exists()


@pytest.mark.slow
def test_one_cache_for_keys_and_values_ends_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = text_runner.last_logits

    def joined(graph: GraphModule, interface: Any) -> Any:
        made, last = right(graph, interface)
        caches = [node for node in made.graph.nodes if node.op == "get_attr" and "_cache_0" in str(node.target)]
        caches[1].target = caches[0].target
        made.recompile()
        return made, last

    monkeypatch.setattr(text_runner, "last_logits", joined)
    with pytest.raises(BudgetError) as stopped:
        exported(tmp_path / "x.edgec", context=240)
    assert stopped.value.code == "E201" and NAME in stopped.value.what


@pytest.mark.slow
@pytest.mark.long
def test_a_text_that_begins_twice_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = runner_texts

    def twice(request: ExportRequest) -> list[RunnerText]:
        mark = request.tokenizer.bos_token
        return [replace(prompt, text=mark + prompt.text) for prompt in right(request)]

    monkeypatch.setattr(rung, "runner_texts", twice)
    (found,) = rungs_of(exported(tmp_path / "x.edgec"))
    assert not found.gated and not found.passed and "it read 6 tokens of a text of 5" in found.note


@pytest.mark.long
def test_a_tokenizer_that_the_runner_cannot_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executorch, "tokenizer_contents", lambda *given: {"tokenizer/tokenizer.json": b"{}"})
    (found,) = rungs_of(exported(tmp_path / "x.edgec"))
    assert not found.gated and found.note.startswith("not run: ") and found.positions == 0


def test_a_model_without_a_tokenizer_has_no_such_rung(tiny_folder: Path) -> None:
    assert rung.text_runner_rung(Path("nowhere"), (), _Silent(), 0.0) is None  # type: ignore[arg-type]


class _Silent:
    tokenizer = None
