"""Encoder-decoders through the whole of ``edgec.export``: the words of transformers' ``generate``, and refusals."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

import edgec
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.runtime_py.encoder_decoder.session import EncoderDecoderSession
from edgec.runtime_py.verify.verify import verify
from tests.cli.test_run import invoke
from tests.encoder_decoders import (
    TEXT_FAMILIES,
    VOCABULARY,
    greedy_text,
    save_encoder_decoder,
    tiny_encoder_decoder,
)
from tests.speech_bundles import save_word_tokenizer

pytestmark = pytest.mark.long

QUICK, COUNT = "t5", 24
FAMILIES = [family if family == QUICK else pytest.param(family, marks=pytest.mark.slow) for family in TEXT_FAMILIES]


def source_of(length: int) -> list[int]:
    tokens: list[int] = torch.randint(
        4, VOCABULARY - 2, (length,), generator=torch.Generator().manual_seed(length)
    ).tolist()
    return tokens


@pytest.fixture(scope="module", params=FAMILIES)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A family and its float bundle."""
    folder = save_encoder_decoder(request.param, tmp_path_factory.mktemp(request.param) / request.param)
    return request.param, edgec.export(folder, recipe="float", out=folder.parent / "x.edgec", context=64)


def test_the_text_is_that_of_transformers_source_after_source(exported: tuple[str, Path]) -> None:
    family, bundle = exported
    model, reference = edgec.load(bundle), tiny_encoder_decoder(family)
    for length in (1, 7, 40):
        wanted = greedy_text(reference, torch.tensor([source_of(length)]), COUNT)
        said = model.generate(source_of(length), max_new_tokens=COUNT)
        assert list(said.tokens) == wanted[1 : 1 + len(said.tokens)] and len(said.tokens) >= len(wanted) - 1


def test_a_streamed_text_is_the_same_and_leaving_it_frees_the_model(exported: tuple[str, Path]) -> None:
    model = edgec.load(exported[1])
    whole = model.generate(source_of(7), max_new_tokens=COUNT)
    with model.stream(source_of(7), max_new_tokens=COUNT) as pieces:
        next(pieces, None)
    streamed = model.stream(source_of(7), max_new_tokens=COUNT)
    assert "".join(streamed) == whole.text
    assert streamed.result is not None and streamed.result.tokens == whole.tokens
    assert asyncio.run(model.generate_async(source_of(7), max_new_tokens=COUNT)).tokens == whole.tokens
    with pytest.raises(InputError) as error:
        model.stream([])
    assert error.value.code == "E151"


def test_the_ladder_executes_every_method_and_the_bundle_verifies(exported: tuple[str, Path]) -> None:
    manifest = open_bundle(exported[1]).manifest
    assert [method.name for method in manifest.methods] == ["encode", "cross", "forward"]
    executed = [rung.stage for rung in manifest.parity if "artifact" in rung.stage]
    assert executed == ["encode: artifact", "cross: artifact", "forward: artifact", "artifact, from source to logits"]
    assert manifest.limits is None and manifest.encoder_decoder is not None
    assert verify(exported[1]).passed


def test_bad_sources_and_foreign_uses_are_refused(exported: tuple[str, Path]) -> None:
    model = edgec.load(exported[1])
    longest = model.encoder_decoder.info.source_tokens or 0
    refused = {
        "E150": lambda: model.generate([5] * (longest + 1)),
        "E151": lambda: model.generate([]),
        "E155": lambda: model.transcribe(np.zeros(16, np.float32)),
    }
    for code, call in refused.items():
        with pytest.raises(InputError) as error:
            call()  # type: ignore[no-untyped-call]
        assert error.value.code == code
    with pytest.raises(InputError) as error:
        _ = model.session
    assert error.value.code == "E155"


def test_keys_and_values_of_sources_stay_where_the_engine_made_them(exported: tuple[str, Path]) -> None:
    bundle = open_bundle(exported[1])
    first, second = (EncoderDecoderSession(bundle) for _ in range(2))
    first.read(np.array([source_of(7)]))
    logits, lent = first.forward([3], 0, (0,)), first._memory
    kept = [values.copy() for values in lent]
    second.read(np.array([source_of(40)]))
    np.testing.assert_array_equal(first.forward([3], 0, (0,)), logits)
    assert np.abs(second.forward([3], 0, (0,)) - logits).max() > 0
    assert not any(values.flags.owndata for values in lent)
    # The arrays keep the engine's session.
    del first
    gc.collect()
    for values, same in zip(lent, kept, strict=True):
        np.testing.assert_array_equal(values, same)


@pytest.fixture(scope="module")
def worded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The quick family's folder with a tokenizer, and its float bundle."""
    folder = save_encoder_decoder(QUICK, tmp_path_factory.mktemp("worded") / QUICK)
    save_word_tokenizer(folder)
    return folder, edgec.export(folder, recipe="float", out=folder.parent / "x.edgec", context=64)


def test_the_command_says_after_a_text_what_transformers_says(worded: tuple[Path, Path]) -> None:
    (folder, bundle), text = worded, "w9 w41 w7 w60 w12"
    words = AutoTokenizer.from_pretrained(folder)
    source = words(text, return_tensors="pt").input_ids
    assert source.tolist() == [[9, 41, 7, 60, 12]]
    wanted = greedy_text(tiny_encoder_decoder(QUICK), source, COUNT)[1:]
    options = [str(bundle), "-p", text, "--max-new-tokens", str(COUNT)]
    told = json.loads(invoke(*options, "--json").stdout)
    assert told["tokens"] == wanted[: len(told["tokens"])] and len(told["tokens"]) >= len(wanted) - 1 > 2
    printed = invoke(*options)
    assert printed.exit_code == 0 and "measured" in printed.stderr
    assert printed.stdout.strip() == words.decode(told["tokens"], skip_special_tokens=True)
    other = json.loads(invoke(str(bundle), "-p", "w50 w3", "--max-new-tokens", str(COUNT), "--json").stdout)
    assert other["tokens"] != told["tokens"], "the text is read"


def test_the_command_refuses_a_sound_for_a_model_that_reads_text(worded: tuple[Path, Path]) -> None:
    for words in (("--audio", "absent.wav"), ("--audio", "absent.wav", "-p", "w9 w41"), ("--audio", "a.wav") * 2):
        error = invoke(str(worded[1]), *words).exception
        assert isinstance(error, InputError) and error.code == "E156", error


@pytest.mark.slow
def test_four_bits_and_the_phone_s_layout_are_exported_and_say_something(tmp_path: Path) -> None:
    folder = save_encoder_decoder(QUICK, tmp_path / QUICK)
    # Rounding moves random weights much further than trained ones; lowering keeps its own budgets.
    budgets = {"max_relative": 2.0, "kl_mean": 2.0, "top1_agreement": 0.0}
    for target in ("host", "android-cpu"):
        out = tmp_path / f"{target}.edgec"
        bundle = edgec.export(folder, recipe="4bit", target=target, out=out, context=64, budgets=budgets)
        said = edgec.load(bundle).generate(source_of(9), max_new_tokens=COUNT)
        assert len(said.tokens) > 0 and all(0 <= token < VOCABULARY for token in said.tokens)


@pytest.mark.parametrize("target", ["android-gpu", "snapdragon-8-elite"])
def test_targets_without_a_place_for_an_encoder_are_refused_before_any_work(target: str, tmp_path: Path) -> None:
    folder = save_encoder_decoder(QUICK, tmp_path / QUICK)
    with pytest.raises(InputError) as error:
        edgec.export(folder, target=target, out=tmp_path / "x.edgec")
    assert error.value.code == "E534" and not (tmp_path / "x.edgec").exists()


@pytest.mark.slow
def test_a_checkpoint_with_an_lm_head_of_its_own_keeps_it(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = save_encoder_decoder("flan_t5", tmp_path / "flan")
    tensors = load_file(folder / "model.safetensors")
    own = torch.randn(tensors["shared.weight"].shape, generator=torch.Generator().manual_seed(1))
    save_file({**tensors, "lm_head.weight": own}, folder / "model.safetensors", metadata={"format": "pt"})
    from transformers import T5ForConditionalGeneration

    wanted = greedy_text(T5ForConditionalGeneration.from_pretrained(folder), torch.tensor([source_of(9)]), COUNT)
    bundle = edgec.export(folder, recipe="float", out=tmp_path / "x.edgec", context=64)
    said = edgec.load(bundle).generate(source_of(9), max_new_tokens=COUNT)
    assert list(said.tokens) == wanted[1 : 1 + len(said.tokens)]


@pytest.mark.slow
def test_speech_is_written_as_transformers_writes_it(tmp_path: Path) -> None:
    from transformers import WhisperFeatureExtractor

    folder = save_encoder_decoder("whisper", tmp_path / "whisper")
    bundle = edgec.export(folder, recipe="float", out=tmp_path / "x.edgec")
    model, reference = edgec.load(bundle), tiny_encoder_decoder("whisper")
    samples = np.sin(np.arange(40_000, dtype=np.float32) * 0.05) * np.linspace(0, 1, 40_000, dtype=np.float32)
    heard = model.transcribe(samples, max_new_tokens=COUNT)
    extractor = WhisperFeatureExtractor(feature_size=16, chunk_length=1)
    for segment, start in zip(heard.segments, (0, 16_000, 32_000), strict=True):
        features = extractor(samples[start : start + 16_000], sampling_rate=16_000, return_tensors="pt").input_features
        wanted = [token for token in greedy_text(reference, features, COUNT) if token != 3]
        assert list(segment.tokens) == wanted[: len(segment.tokens)] and len(segment.tokens) > 0
    assert [segment.start_s for segment in heard.segments] == [0.0, 1.0, 2.0]
    shutil.rmtree(bundle)
