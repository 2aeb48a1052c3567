"""onnxruntime-genai's decoder pipeline over what a context binary was compiled from, and the faults that it finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec
from edgec.backends.qnn import pipeline_ends
from edgec.backends.qnn.context import folders
from edgec.backends.static_artifact import Chip
from edgec.bundle.findings import Rung
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.exporter import pipeline
from edgec.exporter.assemble import genai as config
from edgec.exporter.assemble.genai_pipeline import ends_files
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners import genai as rungs
from edgec.exporter.runners.genai import genai_rungs
from edgec.exporter.runners.genai_pipeline import EMULATED_TOKENS, HEXAGON_STAGE
from edgec.exporter.stages import static_lowering
from edgec.exporter.stages.compiled import Facts
from edgec.runtime_py.runners import genai
from edgec.runtime_py.runners.genai import NAME
from tests.families import FAMILIES, save
from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer

CONTEXT = 512
# Random weights are hard to round, and what is judged here are two executions of the rounded model.
RANDOM = {"kl_mean": 1.0, "top1_agreement": 0.5}
Config = dict[str, Any]
pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Piped:
    """A bundle, and what its rung of onnxruntime-genai was given."""

    bundle: Path
    artifact: Path
    facts: Facts
    request: ExportRequest
    epsilon: float

    def rungs(self) -> dict[str, Rung]:
        return {each.stage: each for each in genai_rungs(self.artifact, self.facts, self.request, self.epsilon)}


def exported(folder: Path, **given: Any) -> Piped:
    pytest.importorskip("onnxruntime_genai")
    pytest.importorskip("onnxruntime_qnn")
    (family,) = [each for each in FAMILIES if each.name == "llama"]
    options = {**family.options, "vocab_size": VOCAB, "max_position_embeddings": CONTEXT}
    model = save(replace(family, options=options), folder / "llama")
    tiny_tokenizer().save_pretrained(model)
    noted: list[Any] = []

    def noting(*arguments: Any) -> list[Rung]:
        noted.extend(arguments)
        return genai_rungs(*arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(genai, "AUTOMATIC", True)
        patched.setattr(pipeline, "other_runtime_rungs", noting)
        asked = {"target": "snapdragon-8-elite", "layout": "genai", "recipe": "8bit", "budgets": RANDOM, **given}
        return Piped(edgec.export(model, out=folder / "x.edgec", **asked), *noted)


@pytest.fixture(scope="module")
def piped(tmp_path_factory: pytest.TempPathFactory) -> Piped:
    return exported(tmp_path_factory.mktemp("piped"), context=CONTEXT)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(genai, "AUTOMATIC", True)


def test_its_own_reader_writes_the_same_tokens_and_the_emulation_does(piped: Piped) -> None:
    found = {each.stage: each for each in open_bundle(piped.bundle).manifest.parity}
    # 24 tokens after a few words, and 24 after a text longer than a window.
    assert found[NAME].positions == 48 and found[NAME].passed and found[NAME].gated
    assert "fixed-point models on this CPU" in found[NAME].note
    assert found[HEXAGON_STAGE].positions == EMULATED_TOKENS and found[HEXAGON_STAGE].passed
    assert "simulated" in found[HEXAGON_STAGE].note
    assert open_bundle(piped.bundle).manifest.layout == "genai"


def test_what_lies_beside_the_artifact_is_three_kinds_of_stages(piped: Piped) -> None:
    made = json.loads((piped.bundle / config.CONFIG).read_text())["model"]
    stages = [stage for each in made["decoder"]["pipeline"] for stage in each.values()]
    assert [Path(stage["filename"]).stem for stage in stages] == [
        *("begin_prefill", "host_prefill", "prefill", "end_prefill"),
        *("begin_decode", "host_decode", "decode", "end_decode"),
    ]
    assert [Path(stage["filename"]).stem for stage in stages if "session_options" in stage] == ["prefill", "decode"]
    assert all((piped.bundle / stage["filename"]).is_file() for stage in stages)
    assert all(stage["run_on_prompt"] is not stage["run_on_token_gen"] for stage in stages)
    # One id more than the model has, which fills windows up.
    assert (made["vocab_size"], made["pad_token_id"]) == (VOCAB + 1, VOCAB)
    assert made["decoder"]["sliding_window"]["window_size"] == 128


def test_an_app_that_asks_for_fewer_tokens_gets_the_same_ones(piped: Piped, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caches have the sizes that a context binary takes all the same."""
    right = config.genai_config

    def shorter(*given: Any) -> Config:
        made = right(*given)
        made["search"]["max_length"] = CONTEXT - 77
        return made

    monkeypatch.setattr(config, "genai_config", shorter)
    monkeypatch.setattr(rungs, "LARGE_BYTES", 0)
    monkeypatch.setattr(rungs, "_wrong_facts", lambda said, request: "")
    assert piped.rungs()[NAME].passed and piped.rungs()[NAME].positions == 48


def _another_end(made: Config) -> None:
    made["eos_token_id"] = [end + 1 for end in made["eos_token_id"]]


def _other_alignment(made: Config) -> None:
    made["decoder"]["sliding_window"]["alignment"] = "right"


def _padding_of_the_model(made: Config) -> None:
    """A token that stands in prompts, as a tokenizer's own padding may."""
    made["pad_token_id"] = 1


def _swapped_caches(made: Config) -> None:
    names = made["decoder"]["outputs"]
    names["present_key_names"], names["present_value_names"] = names["present_value_names"], names["present_key_names"]


def _one_too_few(made: Config) -> None:
    made["context_length"] -= 1


@pytest.mark.parametrize(
    "change", [_another_end, _other_alignment, _padding_of_the_model, _swapped_caches, _one_too_few]
)
def test_what_the_config_says_wrong_is_found(
    change: Callable[[Config], None], piped: Piped, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = config.genai_config

    def wrong(*given: Any) -> Config:
        made = right(*given)
        change(made["model"])
        return made

    monkeypatch.setattr(config, "genai_config", wrong)
    monkeypatch.setattr(rungs, "LARGE_BYTES", 0)
    found = piped.rungs()
    assert found[NAME].gated and not found[NAME].passed


@pytest.mark.parametrize("fault", ["a position later", "another row", "keys for values"])
def test_what_the_stages_at_both_ends_do_wrong_is_found(
    fault: str, piped: Piped, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = pipeline_ends._counted, pipeline_ends._write, pipeline_ends.written_name

    def counted(graph: Any, ids: str, past: str, padding: int, tokens: int) -> None:
        moved = graph.node("Add", [past, graph.constant(int(fault == "a position later"), kind=np.dtype(np.int32))])
        right[0](graph, ids, moved, padding, tokens)

    def write(graph: Any, cache: Any, places: str, tokens: int) -> None:
        moved = graph.node("Sub", [places, graph.constant(int(fault == "another row"), kind=np.dtype(np.int64))])
        right[1](graph, cache, moved, tokens)

    def written(cache: Any) -> str:
        other = {"key": "value", "value": "key"} if fault == "keys for values" else {}
        return right[2](cache.model_copy(update={"role": other.get(cache.role, cache.role)}))

    monkeypatch.setattr(pipeline_ends, "written_name", written)
    monkeypatch.setattr(pipeline_ends, "_counted", counted)
    monkeypatch.setattr(pipeline_ends, "_write", write)
    monkeypatch.setattr(rungs, "LARGE_BYTES", 0)
    found = piped.rungs()
    assert found[NAME].gated and not found[NAME].passed


def test_a_large_artifact_is_not_executed_in_the_emulation(piped: Piped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "LARGE_BYTES", 0)
    found = piped.rungs()[HEXAGON_STAGE]
    assert found.note.startswith("not run: ") and not found.gated


@pytest.mark.slow
def test_a_model_in_several_contexts_is_one_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts' stages have the same names for what crosses from the CPU, and what crosses from part to part."""
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(static_lowering, "Chip", partial(Chip, context_bytes=100_000))
    made = exported(tmp_path, context=CONTEXT)
    assert len(folders(made.artifact)) >= 2
    found = {each.stage: each for each in open_bundle(made.bundle).manifest.parity}
    assert found[NAME].passed and found[NAME].positions == 48 and found[HEXAGON_STAGE].passed


def test_a_context_without_room_for_windows_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    for context, fix in ((128, 256), (200, 256)):
        with pytest.raises(InputError) as refused:
            edgec.export(tiny_folder, target="snapdragon-8-elite", layout="genai", context=context, out=tmp_path / "x")
        assert refused.value.code == "E967" and f"--context {fix}" in refused.value.fix


def test_a_model_that_continues_no_text_is_refused(tmp_path: Path) -> None:
    network = Path("tests.exporter.runners.test_genai:network")
    with pytest.raises(InputError) as refused:
        edgec.export(network, target="snapdragon-8-elite", layout="genai", recipe="8bit", out=tmp_path / "x.edgec")
    assert refused.value.code == "E855"


def test_values_of_another_width_than_keys_are_refused(piped: Piped) -> None:
    key, value, *others = piped.facts.states
    wider = value.model_copy(update={"shape": [*value.shape[:3], 2 * value.shape[3]]})
    with pytest.raises(InputError) as refused:
        ends_files(piped.request, piped.facts.model_copy(update={"states": [key, wider, *others]}), piped.artifact)
    assert refused.value.code == "E855"
