"""The rungs in which onnxruntime-genai writes by the artifact, and the faults that it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.bundle.findings import Rung
from edgec.bundle.folder import open_bundle, read_manifest
from edgec.errors import BudgetError, InputError
from edgec.exporter.assemble import genai as config
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners import genai as rungs
from edgec.exporter.runners.genai import TOKENIZER_STAGE
from edgec.exporter.runners.texts import RunnerText
from edgec.runtime_py.model import load
from edgec.runtime_py.runners import genai
from edgec.runtime_py.runners.genai import NAME
from edgec.runtime_py.verify.verify import verify
from tests.families import FAMILIES, save
from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer

EXAMPLE = Path(__file__).parents[3] / "examples" / "tiny-stories"
CONTEXT = 256
Config = dict[str, Any]


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(genai, "AUTOMATIC", True)


def exported(out: Path, model: Path = EXAMPLE, recipe: str = "8bit", **given: Any) -> Path:
    """A bundle; faults lie in what is written after lowering, so that all tests share one lowered artifact."""
    return edgec.export(model, target="host", format="onnx", layout="genai", recipe=recipe, out=out, **given)


def rungs_of(bundle: Path) -> dict[str, Rung]:
    return {each.stage: each for each in read_manifest(bundle).parity if each.stage in (NAME, TOKENIZER_STAGE)}


@pytest.mark.long
@pytest.mark.parametrize(
    "recipe", ["8bit", *(pytest.param(name, marks=pytest.mark.slow) for name in ("float", "4bit"))]
)
def test_it_writes_the_same_tokens_and_the_bundle_opens(recipe: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime_genai")
    bundle = exported(tmp_path / "x.edgec", recipe=recipe, context=CONTEXT)
    found = rungs_of(bundle)
    # 24 tokens after a few words, and 24 after a text longer than a chunk.
    assert found[NAME].positions == 48 and found[NAME].passed and found[NAME].gated
    # Its reader of regular expressions knows no counts, which this tokenizer has.
    assert found[TOKENIZER_STAGE].note.startswith("not read: ") and not found[TOKENIZER_STAGE].gated
    manifest = open_bundle(bundle).manifest
    assert manifest.layout == "genai" and [method.name for method in manifest.methods] == ["model"]
    assert verify(bundle).passed
    reply = load(bundle).generate("Once upon a time", max_new_tokens=8)
    assert reply.text.strip()


@pytest.mark.long
@pytest.mark.parametrize("name", ["gemma3_text", pytest.param("qwen3", marks=pytest.mark.slow)])
def test_windows_and_a_tokenizer_that_begins_texts_are_understood(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime_genai")
    (family,) = [each for each in FAMILIES if each.name == name]
    folder = save(replace(family, options={**family.options, "vocab_size": VOCAB}), tmp_path / name)
    tiny_tokenizer().save_pretrained(folder)
    found = rungs_of(exported(tmp_path / "x.edgec", folder))
    assert found[NAME].passed and found[NAME].gated and found[NAME].positions > 0
    assert found[TOKENIZER_STAGE].positions == 26


def _another_end(made: Config) -> None:
    made["model"]["eos_token_id"] = [end + 1 for end in made["model"]["eos_token_id"]]


def _one_too_few(made: Config) -> None:
    made["search"]["max_length"] -= 1


def _swapped_caches(made: Config) -> None:
    names = made["model"]["decoder"]["outputs"]
    names["present_key_names"], names["present_value_names"] = names["present_value_names"], names["present_key_names"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_another_end, "ending is [False], not [True]"),
        (_one_too_few, f"longest is {CONTEXT - 1}, not {CONTEXT}"),
        (_swapped_caches, ""),
    ],
)
def test_what_the_config_says_wrong_ends_the_export(
    change: Callable[[Config], None], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime_genai")
    right = config.genai_config

    def wrong(*given: Any) -> Config:
        made = right(*given)
        change(made)
        return made

    monkeypatch.setattr(config, "genai_config", wrong)
    with pytest.raises(BudgetError) as stopped:
        exported(tmp_path / "x.edgec", context=CONTEXT)
    assert stopped.value.code == "E201" and NAME in stopped.value.what and said in stopped.value.why
    assert not (tmp_path / "x.edgec").exists()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose tokenizer begins texts, and is one that onnxruntime-genai reads."""
    (family,) = [each for each in FAMILIES if each.name == "llama"]
    folder = save(replace(family, options={**family.options, "vocab_size": VOCAB}), tmp_path_factory.mktemp("llama"))
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.long
def test_texts_that_begin_twice_are_told(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime_genai")
    same = rungs_of(exported(tmp_path / "right.edgec", begun))[TOKENIZER_STAGE]
    assert same.passed and same.note == "26 of 26 texts give the same ids, 17 of 17 conversations the same text"
    right = rungs._texts

    def twice(request: ExportRequest) -> list[RunnerText]:
        """Texts of an app that writes what begins them itself."""
        mark = request.tokenizer.bos_token
        return [replace(each, text=mark + each.text) for each in right(request)]

    monkeypatch.setattr(rungs, "_texts", twice)
    found = rungs_of(exported(tmp_path / "x.edgec", begun))
    assert found[NAME].passed and not found[TOKENIZER_STAGE].passed
    assert found[TOKENIZER_STAGE].note.startswith("0 of 26 texts")


@pytest.mark.long
def test_another_token_that_begins_texts_ends_the_export(
    begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime_genai")
    right = config.genai_config

    def wrong(*given: Any) -> Config:
        made = right(*given)
        made["model"]["bos_token_id"] += 1
        return made

    monkeypatch.setattr(config, "genai_config", wrong)
    with pytest.raises(BudgetError, match=r"bos is 2, not 1"):
        exported(tmp_path / "x.edgec", begun)


@pytest.mark.long
def test_where_it_is_not_installed_the_rung_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "is_installed", lambda: False)
    found = rungs_of(exported(tmp_path / "x.edgec", context=CONTEXT))
    assert not found[NAME].gated and found[NAME].note.startswith("not run: ") and TOKENIZER_STAGE not in found


@pytest.mark.long
def test_a_model_that_continues_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        exported(tmp_path / "x.edgec", Path("tests.exporter.runners.test_genai:network"), "float")
    assert refused.value.code == "E855"


def network() -> tuple[Any, Any]:
    """A network that writes no text."""
    import torch

    return torch.nn.Linear(4, 4).eval(), (torch.zeros(1, 4),)
