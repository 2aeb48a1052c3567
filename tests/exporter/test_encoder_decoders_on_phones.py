"""Encoder-decoders with methods of fixed shapes: one artifact says what transformers' own model does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import edgec
from edgec.apps.embed.embed import embed
from edgec.bundle.folder import open_bundle
from edgec.bundle.golden import Golden, read_golden
from edgec.cli.app import app
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.progress import Progress
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.stages.compiled import load_facts
from edgec.exporter.stages.protocol import stages_of
from edgec.runtime_py.bench.bench import bench
from edgec.runtime_py.verify.verify import function_fault, replay_vectors, verify
from tests.encoder_decoders import TEXT_FAMILIES, VOCABULARY, save_encoder_decoder
from tests.fixed_encoder_decoders import (
    CONTEXT,
    COUNT,
    FEWEST,
    MOST_UNSURE,
    PACKAGE,
    FixedEncoderDecoder,
    code_of,
    exported_of,
    sounds,
    written,
)
from tests.speech_bundles import SWEEP, save_word_tokenizer, timed_bundle, write_wav

pytestmark = pytest.mark.long

QUICK = "whisper"
SLOW = [
    *((QUICK, format) for format in ("onnx", "pte", "aimodel")),
    *((family, "mlpackage") for family in TEXT_FAMILIES),
    *((family, format) for family in ("t5", "marian") for format in ("onnx", "pte", "aimodel")),
]
EACH = [(QUICK, "mlpackage"), *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)]


@pytest.fixture(scope="module", params=EACH, ids="-".join)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FixedEncoderDecoder:
    """A family's bundle in a format."""
    family, format = request.param
    return exported_of(family, format, tmp_path_factory.mktemp(family) / family)


@pytest.mark.slow
def test_the_text_is_that_of_transformers_source_after_source(exported: FixedEncoderDecoder) -> None:
    model, compared = edgec.load(exported.bundle), 0
    for source in exported.sources(model):
        wanted, said = exported.words(source), written(exported, model, source)
        # The end is not among what a bundle says.
        length = min(len(wanted), len(said))
        assert said[:length] == wanted[:length] and len(said) >= len(wanted) - 1
        compared += length
    # A wrong artifact makes its own error large, and would have no token compared.
    assert exported.unsure < MOST_UNSURE and compared >= FEWEST.get(exported.family, 10)


def test_logits_after_a_text_of_any_length_are_those_of_transformers(exported: FixedEncoderDecoder) -> None:
    model = edgec.load(exported.bundle)
    tokens = torch.randint(4, VOCABULARY - 2, (CONTEXT,), generator=torch.Generator().manual_seed(3)).tolist()
    for source in exported.sources(model):
        # One token goes through decode, others through prefill with padding; the last fills the states.
        for length in (1, 2, 9, CONTEXT):
            assert exported.moved(model, source, tokens[:length]) < exported.most_moved


def test_a_source_is_forgotten_with_the_next(exported: FixedEncoderDecoder) -> None:
    model = edgec.load(exported.bundle)
    session, (first, second, *_) = model.encoder_decoder, exported.sources(model)
    logits = []
    for source in (first, second, first):
        session.read(source.numpy())
        logits.append(session.prefill([3, 9, 11], 0))
    assert np.array_equal(logits[0], logits[2])
    assert np.abs(logits[0] - logits[1]).max() > 1e-3 * np.abs(logits[0]).max()


def test_the_manifest_names_the_encoder_s_functions_beside_the_static_methods(exported: FixedEncoderDecoder) -> None:
    manifest = open_bundle(exported.bundle).manifest
    info = manifest.encoder_decoder
    assert manifest.limits is None and info is not None
    encode, cross, prefill, decode = manifest.methods
    assert [method.name for method in manifest.methods] == ["encode", "cross", "prefill", "decode"]
    positions = encode.outputs[0].shape[1]
    assert cross.inputs[0].shape == encode.outputs[0].shape
    padded = [] if exported.takes_sound else ["source_used"]
    assert [tensor.name for tensor in encode.inputs][1:] == padded
    kept = [tensor.name for tensor in cross.outputs]
    assert kept[:2] == ["cross_key_0", "cross_value_0"] and len(kept) == 2 * 3
    half = "float32" if manifest.format == "onnx" else "float16"
    for method, tokens in ((prefill, info.limits.prefill_chunk), (decode, 1)):
        given = {tensor.name: tensor for tensor in method.inputs}
        assert given["tokens"].shape == [1, tokens] and given["start"].shape == given["last"].shape == [1]
        assert [name for name in given if name.startswith(("cross_", "source_"))] == [*kept, *padded]
        assert all(given[name].dtype == half and given[name].shape[2] == positions for name in kept)
    assert {tensor.dtype for tensor in cross.outputs} == {state.dtype for state in manifest.states} == {half}
    assert {info.options["method"] for info in manifest.passes} == {"encode", "cross", "forward", "prefill"}
    assert manifest.ledger is not None and manifest.ledger.weight_bytes > 0


def test_the_ladder_executes_every_method_alone_and_all_from_source_to_logits(
    exported: FixedEncoderDecoder,
) -> None:
    rungs = open_bundle(exported.bundle).manifest.parity
    assert "forward: static methods" in [rung.stage for rung in rungs]
    *_, encode, cross, text, whole = rungs
    assert [rung.stage for rung in (encode, cross, text, whole)] == [
        *("encode: artifact", "cross: artifact", "forward: artifact", "artifact, from source to logits")
    ]
    assert whole.reference == "transformers float32"
    assert all("executed by" in rung.note for rung in (encode, cross, text, whole))
    # A chunk that is not full, single tokens, and a whole chunk.
    assert text.positions == whole.positions > 8 and text.top1_agreement == whole.top1_agreement == 1.0


def test_golden_vectors_are_replayed_and_a_changed_one_is_found(exported: FixedEncoderDecoder) -> None:
    bundle, model = open_bundle(exported.bundle), edgec.load(exported.bundle)
    assert verify(exported.bundle).passed and bundle.golden_path is not None
    golden = read_golden(bundle.golden_path)
    (text,) = golden.outputs
    # The prompt takes prefill, what follows decode.
    assert len(text.prompt_ids) > 1 and len(text.continuation_ids) > 1
    moved = [
        probe.model_copy(update={"logits": [v + 2 * text.tolerance for v in probe.logits]}) for probe in text.probes
    ]
    outputs, _ = replay_vectors(model, Golden(outputs=(text.model_copy(update={"probes": moved}),)))
    assert outputs.status == "failed"
    assert [each.method for each in golden.functions] == (["encode"] if exported.takes_sound else [])
    for each in golden.functions:
        assert function_fault(model, each) is None
        values = {name: [held[0] + 2 * each.tolerance, *held[1:]] for name, held in each.values.items()}
        assert "moved by" in (function_fault(model, each.model_copy(update={"values": values})) or "")
        assert code_of(lambda each=each: function_fault(model, each.model_copy(update={"method": "cross"}))) == "E152"


def test_sources_that_are_too_long_or_of_another_shape_are_refused(exported: FixedEncoderDecoder) -> None:
    session = edgec.load(exported.bundle).encoder_decoder
    if exported.takes_sound:
        assert code_of(lambda: session.read(np.zeros((1, 16, 99), np.float32))) == "E152"
        return
    longest = session.info.source_tokens or 0
    session.read(np.full((1, longest), 5))
    assert code_of(lambda: session.read(np.full((1, longest + 1), 5))) == "E150"


@pytest.mark.slow
def test_commands_know_such_a_bundle(exported: FixedEncoderDecoder, tmp_path: Path) -> None:
    bundle, model = exported.bundle, edgec.load(exported.bundle)
    if exported.takes_sound:
        given = ["--audio", str(write_wav(tmp_path / "a.wav", sounds(1)))]
        wanted = written(exported, model, exported.sources(model)[0])
    else:
        given, wanted = ["-p", "w9 w41 w7"], list(model.generate([9, 41, 7], max_new_tokens=COUNT).tokens)
    done = CliRunner().invoke(app, ["run", str(bundle), *given, "--json", "--max-new-tokens", str(COUNT)])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["segments"][0]["tokens"] if exported.takes_sound else told["tokens"]) == wanted
    shown = CliRunner().invoke(app, ["inspect", str(bundle)])
    assert shown.exit_code == 0 and "encode" in shown.stdout
    assert code_of(lambda: bench(bundle)) == "E427"
    manifest = open_bundle(bundle).manifest
    if manifest.target == "host":
        return  # No app is made of a bundle for this machine.
    if exported.takes_sound and manifest.format == "mlpackage":
        app_folder = embed(bundle, "ios", tmp_path / "app").path
        assert (app_folder / "Package.swift").is_file() and list(app_folder.glob("Sources/*/SpeechCoreML.swift"))
        return
    code = code_of(lambda: embed(bundle, "ios", tmp_path / "app"))
    assert code == ("E464" if exported.takes_sound else "E535") and not (tmp_path / "app").exists()


@pytest.mark.parametrize("target", ["snapdragon-8-elite", "android-gpu"])
def test_targets_without_a_place_for_an_encoder_are_refused_before_any_work(target: str, tmp_path: Path) -> None:
    folder, out = save_encoder_decoder(QUICK, tmp_path / QUICK), tmp_path / "x.edgec"
    with pytest.raises(InputError, match="none for an encoder") as caught:
        edgec.export(folder, target=target, out=out)
    assert caught.value.code == "E534" and not out.exists()


def test_an_encoder_that_normalises_a_whole_sound_is_refused_before_any_work(tmp_path: Path) -> None:
    folder, out = save_encoder_decoder("moonshine", tmp_path / "moonshine"), tmp_path / "x.edgec"
    with pytest.raises(InputError, match="normalises a sound over its whole length") as caught:
        edgec.export(folder, target="iphone", out=out)
    assert caught.value.code == "E534" and not out.exists()


def test_options_without_a_meaning_for_an_encoder_are_refused(tmp_path: Path) -> None:
    folder, out = save_encoder_decoder(QUICK, tmp_path / QUICK), tmp_path / "x.edgec"
    (tmp_path / "text.txt").write_text("what is this", encoding="utf-8")
    assert code_of(lambda: edgec.export(folder, **PACKAGE, calibrate=tmp_path / "text.txt", out=out)) == "E534"
    assert not out.exists()


@pytest.mark.slow
def test_four_bits_are_exported_and_say_something(tmp_path: Path) -> None:
    folder = save_encoder_decoder(QUICK, tmp_path / QUICK)
    # Random weights are rounded worse than trained ones: quality is not judged, lowering is.
    loose = {"kl_mean": 5.0, "top1_agreement": 0.0, "max_relative": 2.0}
    bundle = edgec.export(folder, **{**PACKAGE, "recipe": "4bit"}, budgets=loose, out=tmp_path / "x.edgec")
    said = edgec.load(bundle).transcribe(sounds(1), max_new_tokens=8)
    assert said.segments[0].tokens and verify(bundle).passed


@pytest.mark.slow
def test_an_interrupted_export_lowers_what_it_rewrites_again(tmp_path: Path) -> None:
    folder = save_encoder_decoder("t5", tmp_path / "t5")
    options = ExportOptions(str(folder), target="host", format="onnx", recipe="float", context=CONTEXT)
    stages_of(resolve_options(options).request).lower(tmp_path, Progress())
    names = ["encode", "cross", "prefill", "decode"]
    assert [method.name for method in load_facts(tmp_path).methods] == names
    assert all((tmp_path / "model.onnx" / f"{name}.onnx").is_file() for name in names)


@pytest.mark.slow
def test_a_context_that_is_not_in_whole_chunks_is_served_to_its_last_position(tmp_path: Path) -> None:
    folder = save_encoder_decoder("bart", tmp_path / "bart")
    # As many positions as the model has numbers for: a chunk's padding would read behind its table.
    bundle = edgec.export(folder, **{**PACKAGE, "context": 96}, out=tmp_path / "x.edgec")
    manifest = open_bundle(bundle).manifest
    assert manifest.states[0].slots == 96 and manifest.encoder_decoder is not None
    assert manifest.encoder_decoder.limits.prefill_chunk == 64
    tokens = torch.randint(4, VOCABULARY - 2, (96,), generator=torch.Generator().manual_seed(3)).tolist()
    fixed, source = FixedEncoderDecoder("bart", bundle, 5e-3), torch.tensor([[5, 80, 33, 12]])
    assert fixed.moved(edgec.load(bundle), source, tokens) < fixed.most_moved


@pytest.mark.slow
def test_languages_and_timestamps_over_several_windows_are_those_of_the_host_s_bundle(tmp_path: Path) -> None:
    folder = save_encoder_decoder("timed", tmp_path / "timed")
    save_word_tokenizer(folder)
    options = {**PACKAGE, "target": "host", "format": "onnx"}
    fixed = edgec.load(edgec.export(folder, **options, out=tmp_path / "x.edgec"))
    wanted, heard = (each.transcribe(SWEEP) for each in (edgec.load(timed_bundle()), fixed))
    assert heard.language == wanted.language and len(wanted.segments) > 2
    assert heard.segments == wanted.segments
