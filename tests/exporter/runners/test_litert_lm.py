"""The rungs in which LiteRT-LM writes by the artifact, the faults that they find, and what is refused before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import edgec
from edgec.backends.litert.container import LanguageFacts, model_bytes
from edgec.bundle.findings import Rung
from edgec.bundle.folder import open_bundle
from edgec.errors import BudgetError, InputError
from edgec.exporter import litert_facts as packing
from edgec.exporter.options import ExportOptions
from edgec.exporter.parity import ladder
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.runners import litert_lm as rungs
from edgec.exporter.runners.litert_lm import CHAT_STAGE, GPU_STAGE, TOKENIZER_STAGE, litert_lm_rungs
from edgec.exporter.runners.texts import FIX
from edgec.exporter.stages.signatures import SignatureStages
from edgec.runtime_py.bench.bench import bench
from edgec.runtime_py.model import load
from edgec.runtime_py.runners import litert_lm
from edgec.runtime_py.runners.litert_lm import NAME, LitertLmAnswer, LitertLmText, software_vulkan
from edgec.runtime_py.verify.verify import verify
from tests.families import FAMILIES, save
from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer

CONTEXT, EPSILON = 256, 1e-3
LITERT = ("ai_edge_litert", "litert_torch", "litert_lm", "litert_lm_builder")


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert_lm, "AUTOMATIC", True)


def _model(folder: Path, name: str = "llama") -> Path:
    (family,) = [each for each in FAMILIES if each.name == name]
    made = save(replace(family, options={**family.options, "vocab_size": VOCAB}), folder)
    tiny_tokenizer().save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[ExportRequest, Path]:
    """An export in which every rung was run, and its request."""
    for name in LITERT:
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("litert")
    model = _model(folder / "llama")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(litert_lm, "AUTOMATIC", True)
        out = edgec.export(model, target="android-litert", recipe="8bit", context=CONTEXT, out=folder / "x.edgec")
    options = ExportOptions(
        model=model, target="android-litert", recipe="8bit", context=CONTEXT, out=folder / "y.edgec"
    )
    return resolve_options(options).request, out


@pytest.mark.long
def test_it_writes_the_same_words_and_the_bundle_opens(bundle: tuple[ExportRequest, Path]) -> None:
    manifest = open_bundle(bundle[1]).manifest
    found = {rung.stage: rung for rung in manifest.parity}
    assert found[NAME].gated and found[NAME].passed and found[NAME].positions > 0
    assert found[CHAT_STAGE].passed and found[TOKENIZER_STAGE].passed
    assert found[TOKENIZER_STAGE].note.endswith("; texts begin without '<s>', as the model's conversations do")
    assert found["short calls"].passed and found["last positions"].passed
    assert (manifest.format, manifest.artifact) == ("litertlm", "model.litertlm")
    assert [method.name for method in manifest.methods] == ["prefill_128", "decode", "prefill_32"]
    assert verify(bundle[1]).passed
    assert load(bundle[1]).generate("Once upon a time", max_new_tokens=4).tokens


@pytest.mark.long
def test_its_engine_is_measured_by_the_same_records(bundle: tuple[ExportRequest, Path]) -> None:
    made = bench(bundle[1], prompt_tokens=20, new_tokens=3, threads=1, warmups=0)
    assert {"TTFT", "prefill", "decode", "cold load", "warm load", "peak RSS"} <= {each.name for each in made.figures}
    head = made.records[0]
    assert head.comparability.runtime.startswith(f"{NAME} ") and not head.simulated


Facts = Callable[[LanguageFacts], LanguageFacts]
WRONG: dict[str, tuple[Facts, str]] = {
    "another end": (lambda facts: replace(facts, ends=[end + 1 for end in facts.ends]), "ends of texts"),
    "another beginning": (lambda facts: replace(facts, begins=5), "what begins a text"),
    "no template": (lambda facts: replace(facts, template=packing.PLAIN), "other texts"),
}


@pytest.mark.long
@pytest.mark.parametrize("fault", WRONG)
def test_what_the_file_says_wrong_ends_the_export(
    fault: str, bundle: tuple[ExportRequest, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (request, out), (change, said) = bundle, WRONG[fault]
    right = packing.language_facts
    monkeypatch.setattr(packing, "language_facts", lambda asked: change(right(asked)))
    model = tmp_path / "model.tflite"
    model.write_bytes(model_bytes(out / "model.litertlm"))
    packing.pack_language(request, model, tmp_path / "model.litertlm")
    monkeypatch.setattr(packing, "language_facts", right)
    _stops(litert_lm_rungs(tmp_path / "model.litertlm", request, EPSILON), said)


def _stops(found: list[Rung], said: str) -> None:
    with pytest.raises(BudgetError) as stopped:
        ladder.gate(found, FIX)
    assert stopped.value.code == "E201" and said in stopped.value.why


def _pads(written: LitertLmText) -> LitertLmText:
    return replace(written, pieces=["<pad>"] * len(written.pieces))


def _early(written: LitertLmText) -> LitertLmText:
    return replace(written, pieces=written.pieces[: len(written.pieces) // 2])


def _more_read(written: LitertLmText) -> LitertLmText:
    return replace(written, read=written.read + 1)


@pytest.mark.long
@pytest.mark.parametrize("fault", [_pads, _early, _more_read])
def test_other_words_end_the_export(
    fault: Callable[[LitertLmText], LitertLmText], bundle: tuple[ExportRequest, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = litert_lm.asked_litert_lm

    def wrong(*given: Any) -> LitertLmAnswer:
        said = right(*given)
        return replace(said, written=[fault(each) for each in said.written])

    monkeypatch.setattr(rungs, "asked_litert_lm", wrong)
    _stops(litert_lm_rungs(bundle[1] / "model.litertlm", bundle[0], EPSILON), "")


@pytest.mark.long
def test_where_nothing_executes_it_the_rung_says_so(
    bundle: tuple[ExportRequest, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rungs, "software_vulkan", lambda: "")
    gpu = replace(bundle[0], target=replace(bundle[0].target, unit="gpu"))
    found = {rung.stage: rung for rung in litert_lm_rungs(bundle[1] / "model.litertlm", gpu, EPSILON)}
    assert found[GPU_STAGE].note.startswith("not executed: ") and not found[GPU_STAGE].gated
    monkeypatch.setattr(rungs, "is_installed", lambda: False)
    (told,) = litert_lm_rungs(bundle[1] / "model.litertlm", bundle[0], EPSILON)
    assert told.note.startswith("not run: ") and not told.gated


@pytest.mark.long
def test_calls_beside_the_probe_are_judged_by_their_own_noise(bundle: tuple[ExportRequest, Path]) -> None:
    stages, probe = SignatureStages(bundle[0]), bundle[0].probe
    generator = torch.Generator().manual_seed(0)

    def moved(by: float) -> torch.Tensor:
        return rows + by * torch.randn(rows.shape, generator=generator)

    text, rows = torch.zeros(len(probe.tokens), VOCAB), 3 * torch.randn(6, VOCAB, generator=generator)
    again = moved(0.3)
    for by, passes in ((0.3, True), (1.0, False)):
        found = stages._further(Stage("graph", rows), Stage("short calls", moved(by)), text, again)
        assert found.passed == passes, found


@pytest.mark.long
@pytest.mark.skipif(not software_vulkan(), reason="no SwiftShader (chromium-common, libvulkan1)")
def test_a_gpu_writes_what_the_model_in_floats_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "_TOKENS_ON_A_GPU", 8)
    given: dict[str, Any] = {"target": "android-litert-gpu", "recipe": "8bit", "context": CONTEXT}
    out = edgec.export(_model(tmp_path / "llama"), out=tmp_path / "x.edgec", **given)
    (found,) = (rung for rung in open_bundle(out).manifest.parity if rung.stage == GPU_STAGE)
    assert found.gated and found.passed and found.positions >= 8


def _refused(out: Path, model: str | Path, **given: Any) -> str:
    with pytest.raises(InputError) as refused:
        edgec.export(model, out=out, **{"target": "android-litert", **given})
    return refused.value.code


@pytest.mark.long
def test_what_has_no_place_in_the_format_is_refused_before_work(tmp_path: Path) -> None:
    out, model = tmp_path / "x.edgec", _model(tmp_path / "llama")
    assert _refused(out, "tests.exporter.runners.test_genai:network", recipe="float") == "E907"
    assert _refused(out, model, target="android-litert-gpu", context=4096) == "E909"
    recipe = tmp_path / "sixteen.toml"
    recipe.write_text("[weights]\nbits = 4\ngroup_size = 16\nscale_bits = 16\n")
    assert _refused(out, model, recipe=recipe) == "E172"
    (model / "tokenizer.json").unlink()
    assert _refused(out, model) == "E906"


def network() -> tuple[Any, Any]:
    """A network that writes no text."""
    import torch

    return torch.nn.Linear(4, 4).eval(), (torch.zeros(1, 4),)
