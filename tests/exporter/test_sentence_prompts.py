"""A sentence encoder's prompts from export to vectors: by default, by name, and read without being pooled.

Where sentence-transformers is installed, its own vectors are compared too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import edgec
from edgec.cli.app import app
from edgec.errors import InputError
from edgec.runtime_py.model import Model
from edgec.runtime_py.verify.verify import verify
from tests.exporter.tiny_sentence_encoder import POSITIONS, bert, expected, qwen3, save_sentence_encoder, text_of, write

pytestmark = pytest.mark.long

# Float32 in another order of additions, relative to vectors of length 1.
TOLERANCE = 2e-6
PROMPTS = {"query": "the red ball ", "passage": "she saw "}
BEFORE = {None: "the red ball ", "query": "the red ball ", "passage": "she saw ", "document": "", "": ""}


def _folder(folder: Path, pooling: str, kind: Callable[[], Any], include_prompt: bool) -> Path:
    save_sentence_encoder(folder, pooling, model=kind())
    told = {"prompts": PROMPTS, "default_prompt_name": "query"}
    write(folder / "config_sentence_transformers.json", told)
    sizes = {"word_embedding_dimension": 32, f"pooling_mode_{pooling}": True, "include_prompt": include_prompt}
    write(folder / "1_Pooling" / "config.json", sizes)
    return folder


def _exported(folder: Path, out: Path, **options: Any) -> Model:
    return edgec.load(edgec.export(folder, recipe="float", out=out, **options))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _folder(tmp_path_factory.mktemp("prompts") / "tiny", "mean_tokens", bert, include_prompt=True)


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return _exported(folder, folder.parent / "tiny.edgec")


@pytest.mark.slow
def test_prompts_go_before_texts(folder: Path, model: Model) -> None:
    for name, before in BEFORE.items():
        wanted = expected(folder, before + text_of(5), "mean_tokens", True)
        assert np.abs(model.embed(text_of(5), prompt_name=name) - wanted).max() < TOLERANCE, name
    assert model.embedded_tokens(text_of(5)) == 10 and model.embedded_tokens(text_of(5), prompt_name="") == 7
    stored = model.bundle.manifest.sentence_encoder
    assert stored is not None and stored.unpooled == {} and verify(model.bundle.path).passed


def test_token_ids_are_whole_and_unknown_names_are_refused(model: Model) -> None:
    ids = model.tokenizer("the red ball " + text_of(5))["input_ids"]
    assert np.array_equal(model.embed([ids])[0], model.embed(text_of(5)))
    assert np.array_equal(model.embed([ids], prompt_name="document")[0], model.embed(text_of(5)))
    for given, name, code in ((["a"], "other", "E126"), ([ids], "query", "E127")):
        with pytest.raises(InputError) as error:
            model.embed(given, prompt_name=name)
        assert error.value.code == code


def test_a_prompt_counts_towards_the_length(model: Model) -> None:
    text = text_of(POSITIONS - 5)
    assert model.embed(text).shape == (32,)
    with pytest.raises(InputError) as error:
        model.embed(text_of(POSITIONS - 2))
    assert error.value.code == "E643"
    cut = model.embed(text_of(POSITIONS), truncate=True)
    assert np.array_equal(cut, model.embed(text))


def test_the_command_names_prompts(model: Model) -> None:
    def run(*options: str) -> Any:
        return CliRunner().invoke(app, ["run", str(model.bundle.path), "-p", text_of(4), *options])

    for name in ("passage", ""):
        one = run("--embed", "--prompt-name", name)
        assert np.array_equal(np.float32(json.loads(one.stdout)), model.embed(text_of(4), prompt_name=name))
    assert "prompt query: 'the red ball '" in run("--embed").stderr
    for options, code in ((("--embed", "--prompt-name", "nothing"), "E126"), (("--prompt-name", "query"), "E156")):
        error = run(*options).exception
        assert isinstance(error, InputError) and error.code == code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "pooling", "target", "form"),
    [
        (bert, "mean_tokens", "host", "pte"),
        (bert, "cls_token", "host", "pte"),
        (bert, "max_tokens", "host", "pte"),
        (qwen3, "lasttoken", "host", "pte"),
        (bert, "mean_tokens", "android-cpu", "pte"),
        (bert, "cls_token", "host", "onnx"),
        (bert, "mean_tokens", "iphone", "mlpackage"),
    ],
)
def test_prompts_that_are_read_and_not_pooled(
    tmp_path: Path, kind: Callable[[], Any], pooling: str, target: str, form: str
) -> None:
    pytest.importorskip({"onnx": "onnxruntime", "mlpackage": "coremltools"}.get(form, "executorch"))
    folder = _folder(tmp_path / "tiny", pooling, kind, include_prompt=False)
    model = _exported(folder, tmp_path / "x.edgec", target=target, format=form)
    assert all(rung.passed for rung in model.bundle.manifest.parity)
    # The Neural Engine's float16, simulated, moves values of a vector of length 1 by up to 7e-4.
    tolerance = 2e-3 if target == "iphone" else TOLERANCE
    # [CLS] and the prompt's own words.
    for name, unpooled in ((None, 4), ("passage", 3), ("", 0)):
        for words in (1, 9, 30):
            wanted = expected(folder, BEFORE[name] + text_of(words), pooling, True, unpooled)
            assert np.abs(model.embed(text_of(words), prompt_name=name) - wanted).max() < tolerance, (name, words)


@pytest.mark.parametrize("include_prompt", [True, False])
def test_vectors_are_those_of_the_authors_library(tmp_path: Path, include_prompt: bool) -> None:
    library = pytest.importorskip("sentence_transformers")
    folder = _folder(tmp_path / "tiny", "mean_tokens", bert, include_prompt)
    model, own = _exported(folder, tmp_path / "x.edgec"), library.SentenceTransformer(str(folder), device="cpu")
    for words in (0, 1, 20):
        for name in BEFORE:
            asked = {"prompt": ""} if name == "" else {"prompt_name": name}
            wanted = own.encode(text_of(words), **asked)
            made = model.embed(text_of(words), prompt_name=name)
            # Float32 in another order of additions; all vectors have length 1.
            assert float(wanted @ made) > 1 - 1e-6, (words, name)
