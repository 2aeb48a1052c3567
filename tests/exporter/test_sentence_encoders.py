"""Sentence encoders from export to vectors, over poolings, lengths and targets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import edgec
from edgec.bundle.folder import open_bundle
from edgec.cli.app import app
from edgec.errors import InputError
from edgec.runtime_py.model import Model
from edgec.runtime_py.verify.verify import verify
from tests.exporter.tiny_sentence_encoder import (
    POSITIONS,
    expected,
    gemma3,
    qwen3,
    save_sentence_encoder,
    text_of,
    write,
)

pytestmark = pytest.mark.long

# Float32 in another order of additions, relative to vectors of length 1 and of up to about 10.
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_sentence_encoder(tmp_path_factory.mktemp("sentences") / "tiny")


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return edgec.load(edgec.export(folder, target="host", recipe="float", out=folder.parent / "tiny.edgec"))


def test_vectors_are_those_of_the_model_for_every_length(folder: Path, model: Model) -> None:
    for words in (0, 1, 2, 13, POSITIONS - 2):
        vector = model.embed(text_of(words))
        assert (
            vector.shape == (32,)
            and np.abs(vector - expected(folder, text_of(words), "mean_tokens", True)).max() < TOLERANCE
        )
    several = model.embed([text_of(3), text_of(20)])
    assert several.shape == (2, 32) and np.array_equal(several[1], model.embed(text_of(20)))
    assert model.embed([]).shape == (0, 32)


def test_the_ladder_runs_the_shortest_and_the_longest_text(model: Model) -> None:
    manifest = model.bundle.manifest
    assert [rung.stage for rung in manifest.parity[-2:]] == ["artifact, 1 token", f"artifact, {POSITIONS} tokens"]
    assert all(rung.passed for rung in manifest.parity)
    assert manifest.methods[0].dynamic == {"T": (1, POSITIONS)}
    assert [output.name for output in manifest.methods[0].outputs] == ["sentence_embedding"]
    assert manifest.model.task == "sentence-similarity" and verify(model.bundle.path).passed


def test_long_texts_are_refused_or_cut_with_their_closing_token(model: Model) -> None:
    long, fitting = text_of(POSITIONS), text_of(POSITIONS - 2)
    with pytest.raises(InputError) as error:
        model.embed(["fine", long])
    assert error.value.code == "E643"
    assert np.array_equal(model.embed(long, truncate=True), model.embed(fitting))
    assert (model.embedded_tokens(fitting), model.embedded_tokens(long, truncate=True)) == (POSITIONS, POSITIONS)


def test_token_ids_are_taken_and_checked(model: Model) -> None:
    ids = model.tokenizer(text_of(4))["input_ids"]
    assert np.array_equal(model.embed([ids])[0], model.embed(text_of(4)))
    for wrong, code in (([[]], "E643"), ([[10_000]], "E152"), ([[-1]], "E152"), (["\udc80"], "E152")):
        with pytest.raises(InputError) as error:
            model.embed(wrong)
        assert error.value.code == code


def test_the_command_prints_a_vector_per_line(model: Model) -> None:
    bundle = str(model.bundle.path)
    one = CliRunner().invoke(app, ["run", bundle, "--embed", "-p", text_of(4)])
    assert np.array_equal(np.float32(json.loads(one.stdout)), model.embed(text_of(4)))
    piped = CliRunner().invoke(app, ["run", bundle, "--embed", "--json"], input=f"{text_of(2)}\n{text_of(3)}\n")
    assert [json.loads(line)["tokens"] for line in piped.stdout.splitlines()] == [4, 5]
    assert "2 texts, 9 tokens, 32 values each" in piped.stderr


def test_a_decoder_makes_no_vectors_and_an_encoder_no_text(model: Model, tiny_bundle: Path) -> None:
    for call, code in (
        (lambda: edgec.load(tiny_bundle).embed("a"), "E642"),
        (lambda: model.generate("a"), "E155"),
        (lambda: model.score("a", ["b"]), "E155"),
    ):
        with pytest.raises(InputError) as error:
            call()
        assert error.value.code == code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooling", "normalised"), [("cls_token", True), ("max_tokens", False), ("lasttoken", True), ("mean_tokens", False)]
)
def test_every_pooling(tmp_path: Path, pooling: str, normalised: bool) -> None:
    folder = save_sentence_encoder(tmp_path / "tiny", pooling, normalised)
    model = edgec.load(edgec.export(folder, target="host", recipe="float", out=tmp_path / "x.edgec"))
    for words in (1, 9):
        wanted = expected(folder, text_of(words), pooling, normalised)
        assert np.abs(model.embed(text_of(words)) - wanted).max() < TOLERANCE * max(1, np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "pooling", "dense"),
    [(qwen3, "lasttoken", ()), (gemma3, "mean_tokens", ("Identity", "Tanh"))],
)
def test_embedders_that_are_decoders(
    tmp_path: Path, kind: Callable[[], Any], pooling: str, dense: tuple[str, ...]
) -> None:
    folder = save_sentence_encoder(tmp_path / "tiny", pooling, model=kind(), dense=dense)
    model = edgec.load(edgec.export(folder, target="host", recipe="float", out=tmp_path / "x.edgec"))
    for words in (0, 9, 30):
        wanted = expected(folder, text_of(words), pooling, True)
        assert np.abs(model.embed(text_of(words)) - wanted).max() < TOLERANCE


@pytest.mark.slow
def test_another_context_than_the_authors_read(tmp_path: Path) -> None:
    folder = save_sentence_encoder(tmp_path / "tiny")
    write(folder / "sentence_bert_config.json", {"max_seq_length": 16})
    longer = edgec.load(edgec.export(folder, recipe="float", context=40, out=tmp_path / "longer.edgec"))
    wanted = expected(folder, text_of(38), "mean_tokens", True)
    assert np.abs(longer.embed(text_of(38)) - wanted).max() < TOLERANCE
    with pytest.raises(InputError) as error:
        longer.embed(text_of(39))
    assert error.value.code == "E643"
    plain = edgec.load(edgec.export(folder, recipe="float", out=tmp_path / "plain.edgec"))
    assert plain.embedded_tokens(text_of(38), truncate=True) == 16
    with pytest.raises(InputError) as error:
        edgec.export(folder, recipe="float", context=POSITIONS + 1, out=tmp_path / "none.edgec")
    assert error.value.code == "E118" and str(POSITIONS) in error.value.why


@pytest.mark.slow
def test_eight_bits_stay_close(folder: Path, tmp_path: Path) -> None:
    bundle = edgec.export(folder, target="android-cpu", recipe="8bit", out=tmp_path / "x.edgec")
    wanted = expected(folder, text_of(9), "mean_tokens", True)
    assert float(edgec.load(bundle).embed(text_of(9)) @ wanted) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "form", "library"), [("host", "onnx", "onnxruntime"), ("iphone", "pte", "coremltools")]
)
def test_targets_of_fixed_shapes_read_padded_texts(
    folder: Path, tmp_path: Path, target: str, form: str, library: str
) -> None:
    pytest.importorskip(library)
    bundle = edgec.export(folder, target=target, format=form, recipe="float", out=tmp_path / "x.edgec")
    assert open_bundle(bundle).manifest.methods[0].dynamic == {}
    model = edgec.load(bundle)
    # The Neural Engine's float16, simulated, moves values of a vector of length 1 by up to 7e-4.
    tolerance = TOLERANCE if target == "host" else 2e-3
    for words in (1, 30):
        wanted = expected(folder, text_of(words), "mean_tokens", True)
        assert np.abs(model.embed(text_of(words)) - wanted).max() < tolerance
