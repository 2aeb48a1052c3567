"""``edgec eval`` against a quantised checkpoint: what the checkpoint means, not what it was made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

import edgec
from edgec.cli.app import app
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.stages.stored_reference import StoredModel, open_reference
from edgec.runtime_py.evaluate.evaluate import evaluate
from edgec.runtime_py.evaluate.reference import FloatModel
from tests.exporter.sources.gguf_forms import q4_k_m, write_forms
from tests.runtime_py.tiny_decoder import TEXT

TOKENS = [1, 5, 9, 200, 17, 44]
# The same values in float32, with sums in another order.
SAME = 1e-4


@pytest.fixture(scope="module")
def file(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model in 4 and 8 bits, with its tokenizer."""
    out = tmp_path_factory.mktemp("file") / "out.edgec"
    return edgec.export(tiny_folder, format="gguf", out=out) / "model.gguf"


def test_logits_are_those_of_the_dequantised_weights(tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", q4_k_m)
    model = open_reference(str(file))
    source = resolve(str(file))
    assert isinstance(model, StoredModel) and source.weights is not None
    whole = source.build_on("cpu", held=False)
    put_weights(whole, source.weights)
    with torch.no_grad():
        wanted = whole(torch.tensor([TOKENS])).logits[0].numpy()
    np.testing.assert_allclose(model.logits(TOKENS), wanted, atol=SAME, rtol=0)


def test_models_in_float_are_read_by_transformers(tiny_folder: Path) -> None:
    assert isinstance(open_reference(str(tiny_folder)), FloatModel)


@pytest.mark.long
def test_a_bundle_is_measured_against_a_file(file: Path, tiny_bundle: Path, tiny_folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT * 4)
    found = evaluate(tiny_bundle, text, tokens=60, reference=str(file), opens=open_reference)
    floats = evaluate(tiny_bundle, text, tokens=60, reference=str(tiny_folder), opens=open_reference)
    assert found.reference == str(file) and found.overall.nll == floats.overall.nll
    assert found.overall.kl_mean is not None and floats.overall.kl_mean is not None
    # The bundle is in float: it equals its folder, and is as far from the file as rounding took that.
    assert abs(floats.overall.kl_mean) < 1e-8 and found.overall.kl_mean > 1e-6
    words = ["compare", str(tiny_bundle), str(tiny_bundle), "--text", str(text), "--tokens", "60", "--json"]
    done = CliRunner().invoke(app, [*words, "--reference", str(file)])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["bundles"][1]["kl_mean"] == pytest.approx(found.overall.kl_mean, rel=1e-9)
    weights = resolve(str(file)).weights
    assert weights is not None
    rounded = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype="float32")
    put_weights(rounded, weights)
    rounded.save_pretrained(tmp_path / "rounded")
    again = evaluate(tiny_bundle, text, tokens=60, reference=str(tmp_path / "rounded"))
    assert again.overall.kl_mean == pytest.approx(found.overall.kl_mean, rel=1e-3)


@pytest.mark.slow
@pytest.mark.long
def test_a_bundle_of_a_file_is_measured_against_it(file: Path, tmp_path: Path) -> None:
    bundle = edgec.export(file, out=tmp_path / "out.edgec", budgets={"kl_mean": 100.0, "top1_agreement": 0.0})
    (tmp_path / "text.txt").write_text(TEXT)
    out = tmp_path / "result.json"
    done = CliRunner().invoke(app, ["eval", str(bundle), "--text", str(tmp_path / "text.txt"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert str(file) in out.read_text()
