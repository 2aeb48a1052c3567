from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import edgec
from edgec.errors import InputError
from edgec.runtime_py.evaluate.console import report, summary_lines
from edgec.runtime_py.evaluate.evaluate import Evaluation, bucket_ranges, evaluate, score_window, text_windows
from edgec.runtime_py.model import Model
from tests.runtime_py.fake_stepper import FakeStepper, sums
from tests.runtime_py.tiny_decoder import CONTEXT, TEXT


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "story.txt"
    path.write_text(TEXT * 8)
    return path


@pytest.fixture(scope="module")
def model(tiny_bundle: Path) -> Model:
    return edgec.load(tiny_bundle)


@pytest.fixture(scope="module")
def evaluation(tiny_bundle: Path, tiny_model_dir: Path, text: Path) -> Evaluation:
    return evaluate(tiny_bundle, text, tokens=200, reference=str(tiny_model_dir))


def test_perplexity_equals_transformers_loss(
    evaluation: Evaluation, model: Model, tiny_model_dir: Path, text: Path
) -> None:
    reference, total, count = AutoModelForCausalLM.from_pretrained(tiny_model_dir), 0.0, 0
    for window in text_windows(model, text, 200):
        ids = torch.tensor([window])
        with torch.no_grad():
            total += float(reference(ids, labels=ids).loss) * (len(window) - 1)
        count += len(window) - 1
    assert evaluation.overall.predictions == count == 200
    # float32 sums in another order.
    assert evaluation.overall.nll == pytest.approx(total / count, abs=1e-5)
    assert evaluation.overall.perplexity == pytest.approx(np.exp(total / count), rel=1e-5)


def test_the_float_artifact_agrees_with_its_model(evaluation: Evaluation) -> None:
    assert evaluation.overall.top1_agreement == 1.0
    # The same weights in float32; KL of rounding differences is second order.
    assert evaluation.overall.kl_mean is not None and abs(evaluation.overall.kl_mean) < 1e-8
    assert sum(b.predictions for b in evaluation.buckets) == evaluation.overall.predictions
    assert evaluation.buckets[-1].last < CONTEXT


def test_another_model_is_far_away(tiny_bundle: Path, tiny_model_dir: Path, text: Path, tmp_path: Path) -> None:
    other = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
    with torch.no_grad():
        other.model.layers[1].mlp.down_proj.weight.mul_(-1)
    other.save_pretrained(tmp_path)
    overall = evaluate(tiny_bundle, text, tokens=100, reference=str(tmp_path)).overall
    assert overall.kl_mean is not None and overall.kl_mean > 1e-2
    assert overall.top1_agreement is not None and overall.top1_agreement < 1


def test_without_a_reference_distances_are_unavailable(tiny_bundle: Path, text: Path) -> None:
    result = evaluate(tiny_bundle, text, tokens=50)
    assert result.reference is None, "a bundle of random weights has no reference of its own"
    assert result.overall.kl_mean is None and result.overall.top1_agreement is None and result.overall.nll > 0


class _Uniform:
    name = "uniform"

    def logits(self, tokens: object) -> np.ndarray:
        return np.zeros((len(tokens), 64), np.float32)  # type: ignore[arg-type]


def test_kl_and_loss_by_hand() -> None:
    stepper, prompt = FakeStepper(sums), [5, 6, 7]
    tokens = [*prompt, sums(prompt)]
    scores = score_window(stepper, tokens, _Uniform())
    lead = 20 - np.log(np.exp(20) + 63)
    assert scores.position.tolist() == [0, 1, 2]
    assert scores.nll[2] == pytest.approx(-lead)
    assert scores.reference_nll == pytest.approx(np.log(64))
    # KL(uniform || peaked) = mean over the vocabulary of log(1/64) - log p.
    assert scores.kl[0] == pytest.approx(-np.log(64) - (lead + 63 * (lead - 20)) / 64)


def test_buckets_double() -> None:
    assert bucket_ranges(70) == [(0, 15), (16, 31), (32, 63), (64, 70)]
    assert bucket_ranges(3) == [(0, 3)]


def test_windows_begin_with_the_leading_token_and_lose_nothing(model: Model, text: Path) -> None:
    windows = text_windows(model, text, 10_000)
    assert all(window[0] == 1 and len(window) <= CONTEXT for window in windows)
    assert "".join(model.decode(window) for window in windows) == text.read_text()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\xff"])
def test_texts_that_cannot_be_used(tiny_bundle: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.txt").write_bytes(content)
    with pytest.raises(InputError, match="E164"):
        evaluate(tiny_bundle, tmp_path / "t.txt")


def test_references_that_cannot_be_used(tiny_bundle: Path, tiny_model_dir: Path, text: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E165"):
        evaluate(tiny_bundle, text, reference=str(tmp_path))
    small = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
    small.resize_token_embeddings(300)
    small.save_pretrained(tmp_path / "small")
    with pytest.raises(InputError, match="300"):
        evaluate(tiny_bundle, text, reference=str(tmp_path / "small"))


def test_report_writes_json_and_plot(
    evaluation: Evaluation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(evaluation, tmp_path / "e.json", as_json=True)
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "e.json").read_text())
    titles = [node.text for node in ElementTree.parse(tmp_path / "e.svg").iter() if node.get("font-size") == "13"]
    assert len(titles) == 2
    report(evaluation, None, as_json=False)
    assert "100.0 %" in capsys.readouterr().out


@pytest.mark.parametrize("tokens", [0, -5])
def test_a_count_below_one_is_refused(tiny_bundle: Path, text: Path, tokens: int) -> None:
    with pytest.raises(InputError) as caught:
        evaluate(tiny_bundle, text, tokens=tokens)
    assert caught.value.code == "E156"


def test_perplexity_and_bits_per_byte_stand_beside_the_float_models(evaluation: Evaluation, text: Path) -> None:
    assert evaluation.perplexity.value == pytest.approx(evaluation.overall.perplexity)
    assert evaluation.ratio is not None and evaluation.ratio.value == pytest.approx(1.0, abs=1e-5)
    assert evaluation.bits_per_byte == pytest.approx(evaluation.reference_bits_per_byte, abs=1e-5)
    shown = "\n".join(summary_lines(evaluation))
    assert "1.000 times" in shown and "bits per byte" in shown and "too short for an interval" in shown
