"""Vision-language models for the Neural Engine: one Core ML package says what transformers' own model does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
from tests.exporter.test_vision_language_end_to_end import asked, code_of, size, words
from tests.vision_language import FAMILIES, picture, processor, save_vision_language, tiny_vision_language

QUICK, CONTEXT, COUNT = "llava", 160, 16
PACKAGE: dict[str, Any] = {"target": "iphone", "format": "mlpackage", "recipe": "float", "context": CONTEXT}
SLOW = [
    *((family, "mlpackage") for family in FAMILIES if family != QUICK),
    *((family, "onnx") for family in (QUICK, "gemma3", "paligemma", "qwen2_vl", "qwen3_5", "lfm2_vl")),
    *((family, format) for family in (QUICK, "gemma3") for format in ("pte", "aimodel")),
]
# Shares of the largest logit. Measured: 0.063 for PaliGemma, whose random weights let rounding grow, 0.057 for Gemma 3.
MOST_UNSURE = 0.075
# What sums of float32 in another order may move, where an artifact computes in float32.
FLOAT32 = 1e-4
# Tokens compared of 48 at least; of PaliGemma's few lead by more than rounding moves.
FEWEST = {"paligemma": 1}
EACH = [(QUICK, "mlpackage"), *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)]


@dataclass(frozen=True)
class Fixed:
    """A family's bundle with methods of fixed shapes.

    Attributes:
        family: its name.
        bundle: the folder.
        unsure: the lead, as a share of the largest logit, below which rounding may choose another token.
    """

    family: str
    bundle: Path
    unsure: float

    def words(self, text: str, images: list[Any], *, chat: bool = False) -> list[int]:
        """Transformers' own greedy tokens, up to the first whose lead is too small to tell."""
        given = asked(self.family, text, images, chat=chat)
        options = {"max_new_tokens": COUNT, "do_sample": False, "output_scores": True, "return_dict_in_generate": True}
        with torch.no_grad():
            out = tiny_vision_language(self.family).generate(**given, **options)
        best = [scores[0].topk(2).values / scores.abs().max() for scores in out.scores]
        sure = next((i for i, (first, second) in enumerate(best) if first - second < self.unsure), len(best))
        tokens: list[int] = out.sequences[0, given["input_ids"].shape[1] :].tolist()
        return tokens[:sure]

    @property
    def most_moved(self) -> float:
        """The share of the largest logit by which rounding moves one about other images; measured: half of it."""
        return 2 * self.unsure

    def moved(self, model: Any, text: str, images: list[Any]) -> float:
        """How far a bundle's logits after a prompt are from transformers' own, as a share of the largest."""
        with torch.no_grad():
            wanted = tiny_vision_language(self.family)(**asked(self.family, text, images)).logits[0, -1].numpy()
        prompt = model.encode_images(text.replace("<image>", processor(self.family).image_token), images)
        model.session.take(prompt.tokens, prompt)
        return float(np.abs(model.session.prefill(prompt.tokens, 0) - wanted).max() / np.abs(wanted).max())


@pytest.fixture(scope="module", params=EACH, ids="-".join)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fixed:
    """A family's bundle in a format."""
    family, format = request.param
    folder = save_vision_language(family, tmp_path_factory.mktemp(family) / family)
    options = {**PACKAGE, "format": format, "target": "host" if format == "onnx" else "iphone"}
    bundle = edgec.export(folder, **options, out=folder.parent / "x.edgec", image_size=size(family))
    whole = open_bundle(bundle).manifest.parity[-1]
    assert whole.max_abs is not None and whole.reference_max_abs is not None
    # Both of two logits may move by what the ladder measured, and by half as much again about other images.
    return Fixed(family, bundle, max(3 * whole.max_abs / whole.reference_max_abs, FLOAT32))


def said(model: Any, text: str, images: list[Any], wanted: list[int], **options: Any) -> list[int]:
    """As many tokens of a bundle as are wanted; none where none are."""
    return list(model.generate(text, images=images, max_new_tokens=len(wanted), **options).tokens) if wanted else []


@pytest.mark.long
def test_the_words_are_those_of_transformers_about_one_image_and_about_two(exported: Fixed) -> None:
    family, model, compared = exported.family, edgec.load(exported.bundle), 0
    for index, shape in enumerate([(50, 40), (30, 90)]):
        image = picture(*shape, seed=index)
        wanted = exported.words("<image>what is this", [image])
        assert said(model, "what is this", [image], wanted) == wanted
        assert exported.moved(model, "<image>what is this", [image]) < exported.most_moved
        compared += len(wanted)
    # Its tokenizer drops these words, and transformers cannot number images with nothing between them.
    if family != "qwen3_5":
        text, images = "what <image> is this <image> here", [picture(seed=1), picture(seed=2)]
        wanted = exported.words(text, images)
        assert said(model, text.replace("<image>", processor(family).image_token), images, wanted) == wanted
        assert exported.moved(model, text, images) < exported.most_moved
        compared += len(wanted)
    # A wrong artifact makes its own error large, and would have no token compared.
    assert exported.unsure < MOST_UNSURE and compared >= FEWEST.get(family, 10)


@pytest.mark.long
def test_an_image_that_lies_across_two_calls_has_each_row_at_its_place(exported: Fixed) -> None:
    family, image = exported.family, picture(seed=5)
    if family in ("gemma3", "paligemma", "qwen3_5"):
        pytest.skip("an image comes in one call, or the tokenizer drops these words")
    model = edgec.load(exported.bundle)
    session: Any = model.session
    text = across(family, image, session.limits.prefill_chunk, session.info.image_token)
    # Random weights often choose the same tokens after wrong rows: logits tell.
    assert exported.moved(model, text, [image]) < exported.most_moved


def across(family: str, image: Any, chunk: int, mark: int) -> str:
    """A text whose first call ends within the rows of its image, as near to their middle as may be."""
    texts = ["is " * count + "<image> here" for count in range(chunk)]
    ids = {text: asked(family, text, [image])["input_ids"][0].tolist() for text in texts}
    within = [text for text in texts if ids[text][chunk - 1 : chunk + 1] == [mark, mark]]
    return min(within, key=lambda text: abs(2 * ids[text][:chunk].count(mark) - ids[text].count(mark)))


@pytest.mark.long
def test_rows_or_methods_that_the_manifest_does_not_have_are_refused(exported: Fixed) -> None:
    model, golden = edgec.load(exported.bundle), open_bundle(exported.bundle).golden_path
    session: Any = model.session
    info, rows = session.info, session._vision_encoder
    tile = np.zeros((1, info.channels, info.height, info.width), np.float32)
    right = session.encode_images(tile)
    assert len(right) == info.rows
    for wrong in (right[None, :-1], right[None, :, :-1], right):
        session._vision_encoder = SimpleNamespace(run=lambda inputs, wrong=wrong: [wrong])
        assert code_of(lambda: session.encode_images(tile)) == "E157"
    session._vision_encoder = rows
    assert golden is not None
    (seen,) = read_golden(golden).functions
    assert function_fault(model, seen) is None
    assert (
        function_fault(model, seen.model_copy(update={"method": "audio_encoder"}))
        == "the model has no method 'audio_encoder'"
    )
    assert code_of(lambda: function_fault(model, seen.model_copy(update={"method": "decode"}))) == "E152"


@pytest.mark.long
def test_text_alone_follows_an_image_and_another_image_follows_in_the_same_prompt(exported: Fixed) -> None:
    model = edgec.load(exported.bundle)
    if exported.family == "paligemma":
        pytest.skip("it answers about images only")
    alone = model.generate([8, 9, 10, 11], max_new_tokens=6).tokens
    for seed in (3, 4):
        wanted = exported.words("<image>what is this", [picture(seed=seed)])
        assert len(wanted) > 1
        assert said(model, "what is this", [picture(seed=seed)], wanted, resume=True) == wanted
    assert model.generate([8, 9, 10, 11], max_new_tokens=6, resume=True).tokens == alone


def test_the_manifest_names_a_function_for_a_tile_beside_the_static_methods(exported: Fixed) -> None:
    manifest = open_bundle(exported.bundle).manifest
    images = manifest.vision_language
    assert manifest.limits is None and images is not None
    encoder, prefill, decode = manifest.methods
    assert [method.name for method in manifest.methods] == ["vision_encoder", "prefill", "decode"]
    assert (
        encoder.inputs[0].shape == [1, images.channels, images.height, images.width]
        and encoder.outputs[0].shape[1] == images.rows
    )
    for method, tokens in ((prefill, images.limits.prefill_chunk), (decode, 1)):
        width = encoder.outputs[0].shape[-1]
        shapes = {tensor.name: tensor.shape for tensor in method.inputs}
        assert shapes["tokens"] == [1, tokens] and shapes["start"] == shapes["last"] == [1]
        assert shapes["input_embeds"] == [1, tokens, width] and shapes["embeds_mask"] == [1, tokens, 1]
        assert ("span_end" in shapes) == (images.ahead != "none")
        assert ("mrope_positions" in shapes) == (images.grid is not None)
    dtype = "float32" if manifest.format == "onnx" else "float16"
    assert {state.dtype for state in manifest.states} == {dtype}
    # The decoder's passes, and the one that makes a static method of it.
    assert {info.options["method"] for info in manifest.passes} == {"vision_encoder", "forward", "prefill"}
    assert manifest.ledger is not None and manifest.ledger.weight_bytes > 0


def test_the_ladder_executes_every_method_alone_and_all_from_pixels_to_logits(exported: Fixed) -> None:
    rungs = open_bundle(exported.bundle).manifest.parity
    assert "forward: static methods" in [rung.stage for rung in rungs]
    see, text, whole = rungs[-3:]
    assert [rung.stage for rung in (see, text, whole)] == [
        *("vision_encoder: artifact", "forward: artifact", "artifact, from pixels to logits")
    ]
    assert whole.reference == "transformers float32" and all("executed by" in rung.note for rung in (see, text, whole))
    # A whole chunk, one that is not full, and single tokens.
    assert text.positions == whole.positions > 10 and text.top1_agreement == whole.top1_agreement == 1.0


def test_golden_vectors_cover_each_method_and_a_changed_one_is_found(exported: Fixed) -> None:
    bundle, model = open_bundle(exported.bundle), edgec.load(exported.bundle)
    assert verify(exported.bundle).passed and bundle.golden_path is not None
    golden = read_golden(bundle.golden_path)
    (text,), (seen,) = golden.outputs, golden.functions
    # The prompt takes prefill, what follows decode.
    assert seen.method == "vision_encoder" and len(text.prompt_ids) > 1 and len(text.continuation_ids) > 1
    moved = {name: [values[0] + 2 * seen.tolerance, *values[1:]] for name, values in seen.values.items()}
    logits = [
        probe.model_copy(update={"logits": [v + 2 * text.tolerance for v in probe.logits]}) for probe in text.probes
    ]
    changed = Golden(
        outputs=(text.model_copy(update={"probes": logits}),), functions=(seen.model_copy(update={"values": moved}),)
    )
    outputs, functions = replay_vectors(model, changed)
    assert outputs.status == functions.status == "failed" and "a value of 'input_embeds' moved" in functions.detail


@pytest.mark.long
def test_commands_know_such_a_bundle(exported: Fixed, tmp_path: Path) -> None:
    family, bundle = exported.family, exported.bundle
    picture().save(tmp_path / "a.png")
    wanted = exported.words("what is this", [picture()], chat=True)
    given = ["run", str(bundle), "--image", str(tmp_path / "a.png"), "-p", "what is this", "--json"]
    done = CliRunner().invoke(app, [*given, "--max-new-tokens", str(len(wanted) or 1)])
    assert done.exit_code == 0 and json.loads(done.stdout)["tokens"][: len(wanted)] == wanted
    shown = CliRunner().invoke(app, ["inspect", str(bundle)])
    assert (
        shown.exit_code == 0 and "vision_encoder" in shown.stdout and "each 9 tokens" in shown.stdout
    ) or family != QUICK
    assert code_of(lambda: bench(bundle)) == "E427"
    manifest, out = open_bundle(bundle).manifest, tmp_path / "app"
    if manifest.format == "mlpackage":
        assert embed(bundle, "ios", out).package.files and (out / "README.md").is_file()
        return
    with pytest.raises(InputError) as caught:
        embed(bundle, "ios", out)
    # No app is made of a bundle for this machine.
    assert caught.value.code == ("E460" if manifest.target == "host" else "E464") and not out.exists()
    assert "--format mlpackage" in caught.value.fix or manifest.target == "host"


@pytest.mark.parametrize("target", ["snapdragon-8-elite", "android-gpu"])
def test_targets_without_a_place_for_an_image_encoder_are_refused_before_any_work(target: str, tmp_path: Path) -> None:
    folder, out = save_vision_language(QUICK, tmp_path / QUICK), tmp_path / "x.edgec"
    with pytest.raises(InputError, match="none for an image encoder") as caught:
        edgec.export(folder, target=target, out=out, context=CONTEXT)
    assert caught.value.code == "E652" and not out.exists()


def test_options_without_a_meaning_for_vision_are_refused(tmp_path: Path) -> None:
    folder, out = save_vision_language(QUICK, tmp_path / QUICK), tmp_path / "x.edgec"
    (tmp_path / "text.txt").write_text("what is this", encoding="utf-8")
    assert code_of(lambda: edgec.export(folder, **PACKAGE, calibrate=tmp_path / "text.txt", out=out)) == "E652"
    assert not out.exists()


@pytest.mark.slow
def test_an_image_begins_anywhere_in_a_text_where_its_rows_see_each_other(tmp_path: Path) -> None:
    folder = save_vision_language("gemma3", tmp_path / "gemma3")
    model = edgec.load(edgec.export(folder, **{**PACKAGE, "context": 96}, out=tmp_path / "x.edgec"))
    limits = model.session.limits
    # A call of 96 tokens may begin anywhere in the context, so that the states hold as many more.
    assert limits.prefill_chunk == 96 and model.bundle.manifest.states[0].slots == 192
    before = "what is this " * 20
    text = f"{before}<image> here"
    _, wanted = words("gemma3", text, [picture(seed=5)], 8)
    place = processor("gemma3").image_token
    model.generate(before, max_new_tokens=1)
    answer = model.generate(text.replace("<image>", place), images=[picture(seed=5)], max_new_tokens=8, resume=True)
    assert list(answer.tokens) == wanted and answer.cached_tokens > 0


@pytest.mark.slow
def test_four_bits_are_exported_and_say_something(tmp_path: Path) -> None:
    folder = save_vision_language(QUICK, tmp_path / QUICK)
    # Random weights are rounded worse than trained ones: quality is not judged, lowering is.
    loose = {"kl_mean": 5.0, "top1_agreement": 0.0, "max_relative": 2.0}
    bundle = edgec.export(folder, **{**PACKAGE, "recipe": "4bit"}, budgets=loose, out=tmp_path / "x.edgec")
    tokens = edgec.load(bundle).generate("what is this", images=[picture()], max_new_tokens=8).tokens
    assert tokens and verify(bundle).passed


@pytest.mark.slow
def test_an_interrupted_export_lowers_what_it_rewrites_again(tmp_path: Path) -> None:
    folder = save_vision_language(QUICK, tmp_path / QUICK)
    options = ExportOptions(str(folder), target="host", format="onnx", recipe="float", context=CONTEXT)
    stages_of(resolve_options(options).request).lower(tmp_path, Progress())
    assert [method.name for method in load_facts(tmp_path).methods] == ["vision_encoder", "prefill", "decode"]
    assert (tmp_path / "model.onnx" / "encoder.onnx").is_file()
