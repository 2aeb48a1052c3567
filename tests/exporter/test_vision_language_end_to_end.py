"""Vision-language models through the whole of ``edgec.export``: transformers' words, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer
from typer.testing import CliRunner

import edgec
from edgec.bundle.entry_points import PatchesInfo
from edgec.bundle.folder import open_bundle
from edgec.cli.app import app
from edgec.errors import InputError
from edgec.exporter.api import export_bundle
from edgec.exporter.options import ExportOptions
from edgec.exporter.report.headline import next_commands
from edgec.exporter.sources.multimodal.image_patches import cut_whole
from edgec.runtime_py.bench.bench import bench
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.verify.verify import verify
from tests.vision_language import FAMILIES, picture, processor, save_vision_language, shown, tiny_vision_language
from tests.vision_sized import SIZE, SIZED
from tests.vision_words import IMAGE_TOKEN

pytestmark = pytest.mark.long

QUICK, CONTEXT = "llava", 160
# How many words are compared: 8 bits are lowered much faster, and move the logits of random weights by 3 %.
COUNTS = {"8bit": 3, "float": 16}
EACH = [(QUICK, "8bit"), *(pytest.param((family, "float"), marks=pytest.mark.slow) for family in FAMILIES)]


@dataclass(frozen=True)
class Exported:
    """A family's bundle, and how many of its words are those of the float model."""

    family: str
    bundle: Path
    count: int


@pytest.fixture(scope="module", params=EACH, ids="-".join)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A family's bundle by a recipe."""
    family, recipe = request.param
    folder = save_vision_language(family, tmp_path_factory.mktemp(family) / family)
    bundle = edgec.export(
        folder, recipe=recipe, out=folder.parent / "x.edgec", context=CONTEXT, image_size=size(family)
    )
    return Exported(family, bundle, COUNTS[recipe])


def size(family: str) -> str | None:
    """The option ``--image-size`` of a family."""
    return "x".join(map(str, SIZE)) if family in SIZED else None


@cache
def tokenizer_of(family: str) -> Any:
    """The tokenizer that transformers reads from a family's folder: for Qwen3.5 of another class than was saved."""
    with TemporaryDirectory() as folder:
        return AutoTokenizer.from_pretrained(save_vision_language(family, Path(folder)))


def words(
    family: str, text: str, images: list[Any], count: int, *, chat: bool = False, whole: bool = False
) -> tuple[list[int], list[int]]:
    """The prompt's and the new tokens of transformers' own greedy generation.

    ``text`` has <image> in its places. ``whole``: the images as they are, else as edgec puts them into tiles.
    """
    given = asked(family, text, images, chat=chat, whole=whole)
    length = given["input_ids"].shape[1]
    with torch.no_grad():
        out = tiny_vision_language(family).generate(**given, max_new_tokens=count, do_sample=False)
    return given["input_ids"][0].tolist(), out[0, length:].tolist()


def asked(family: str, text: str, images: list[Any], *, chat: bool = False, whole: bool = False) -> Any:
    """What transformers' own processor makes of a text and its images, as ``words``."""
    made, images = processor(family), [image if whole else shown(family, image) for image in images]
    made.tokenizer = tokenizer_of(family)
    text = text.replace("<image>", made.image_token)
    if not chat:
        return made(text=text, images=[images], return_tensors="pt")
    parts = [*[{"type": "image", "image": image} for image in images], {"type": "text", "text": text}]
    options = {"tokenize": True, "return_dict": True, "return_tensors": "pt", "add_generation_prompt": True}
    return made.apply_chat_template([{"role": "user", "content": parts}], **options)


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as error:
        call()
    return error.value.code


def test_the_words_are_those_of_transformers_image_after_image(exported: Exported, tmp_path: Path) -> None:
    family, bundle, count = exported.family, exported.bundle, exported.count
    model = edgec.load(bundle)
    for index, size in enumerate([(50, 40), (30, 90)]):
        image = picture(*size, seed=index)
        image.save(tmp_path / "a.png")
        _, wanted = words(family, "<image>what is this", [image], count)
        for given in (tmp_path / "a.png", image, np.asarray(image)):
            assert list(model.generate("what is this", images=[given], max_new_tokens=count).tokens) == wanted
    prompt, wanted = words(family, "is this a house", [image], count, chat=True)
    said = model.generate("is this a house", images=[image], template=True, max_new_tokens=count)
    assert list(said.tokens) == wanted and said.prompt_tokens == len(prompt)


def test_two_images_and_images_at_places_of_the_text(exported: Exported) -> None:
    family, bundle, count = exported.family, exported.bundle, exported.count
    if family == "qwen3_5":
        pytest.skip("its tokenizer drops these words, and transformers cannot number images with nothing between them")
    text, images = "what <image> is this <image> here", [picture(seed=1), picture(seed=2)]
    _, wanted = words(family, text, images, count)
    text = text.replace("<image>", processor(family).image_token)
    assert list(edgec.load(bundle).generate(text, images=images, max_new_tokens=count).tokens) == wanted


def test_text_alone_is_continued_and_the_image_before_it_is_forgotten(exported: Exported) -> None:
    family, bundle, count = exported.family, exported.bundle, exported.count
    model, text = edgec.load(bundle), [8, 9, 10, 11, 12]
    if family == "paligemma":
        assert code_of(lambda: model.generate(text)) == "E657"
        return
    with torch.no_grad():
        out = tiny_vision_language(family).generate(torch.tensor([text]), max_new_tokens=count, do_sample=False)
    model.generate("what is this", images=[picture()], max_new_tokens=2)
    for resume in (False, True):
        assert list(model.generate(text, max_new_tokens=count, resume=resume).tokens) == out[0, len(text) :].tolist()
    stream = model.stream("is this", images=[picture()], max_new_tokens=4)
    said = model.generate("is this", images=[picture()], max_new_tokens=4)
    # The words of random weights may all be marks, which a text leaves out.
    assert "".join(stream) == said.text and stream.result is not None and stream.result.tokens == said.tokens


def test_another_image_in_the_same_prompt_is_computed_again(exported: Exported) -> None:
    family, bundle, count = exported.family, exported.bundle, exported.count
    model = edgec.load(bundle)
    for seed in (3, 4, 4):
        _, wanted = words(family, "<image>what is this", [picture(seed=seed)], count)
        said = model.generate("what is this", images=[picture(seed=seed)], max_new_tokens=count, resume=True)
        assert list(said.tokens) == wanted


def test_the_ladder_executes_every_method_and_the_bundle_verifies(exported: Exported) -> None:
    manifest = open_bundle(exported.bundle).manifest
    assert [method.name for method in manifest.methods] == ["vision_encoder", "forward"]
    executed = [rung.stage for rung in manifest.parity if "artifact" in rung.stage]
    assert executed == ["vision_encoder: artifact", "forward: artifact", "artifact, from pixels to logits"]
    assert manifest.limits is None and manifest.vision_language is not None
    assert manifest.vision_language.image_token == IMAGE_TOKEN and manifest.model.family == exported.family
    assert "--image" in next_commands(manifest)[0] and verify(exported.bundle).passed


def test_conversations_sessions_and_a_second_sequence_work_as_for_other_decoders(
    exported: Exported, tmp_path: Path
) -> None:
    if exported.family == "paligemma":
        pytest.skip("it answers about images only")
    model = edgec.load(exported.bundle)
    first = model.chat().say("what is this", model.request(max_new_tokens=4))
    other = model.new_session()
    other.generate("is this", images=[picture()], max_new_tokens=2)
    assert other.chat().say("what is this", model.request(max_new_tokens=4)).text == first.text
    # A recurrence goes on from its last token alone, which is the one before the last that was said.
    said = model.generate([8, 9, 10], max_new_tokens=2).tokens
    model.save_session(tmp_path / "a.session")
    other.load_session(tmp_path / "a.session")
    assert other.generate([8, 9, 10, said[0], 11], max_new_tokens=2, resume=True).cached_tokens == 4
    ahead = model.generate([8, 9, 8, 9, 8, 9, 8], max_new_tokens=6, speculate="ngram")
    assert ahead.tokens == model.generate([8, 9, 8, 9, 8, 9, 8], max_new_tokens=6).tokens


def test_the_command_answers_about_an_image(exported: Exported, tmp_path: Path) -> None:
    family, bundle, count = exported.family, exported.bundle, exported.count
    picture().save(tmp_path / "a.png")
    options = ["-p", "what is this", "--max-new-tokens", str(count), "--json"]
    done = CliRunner().invoke(app, ["run", str(bundle), "--image", str(tmp_path / "a.png"), *options])
    _, wanted = words(family, "what is this", [picture()], count, chat=True)
    assert done.exit_code == 0 and f'"tokens": {wanted}' in done.stdout
    refused = CliRunner().invoke(app, ["run", str(bundle), "--image", "a.png", "--chat"])
    assert refused.exit_code == 1 and getattr(refused.exception, "code", "") == "E156"


def test_bad_images_and_foreign_uses_are_refused(exported: Exported, tmp_path: Path) -> None:
    bundle = exported.bundle
    model, image = edgec.load(bundle), picture()
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    refused = {
        "E150": lambda: model.generate("what", images=["absent.png"] * CONTEXT),
        "E152": lambda: model.generate([8, 9], images=[image]),
        "E653": lambda: model.generate("what", images=[tmp_path / "broken.png"]),
        "E657": lambda: model.generate(f"{processor(exported.family).image_token}what", images=[image, image]),
    }
    for code, call in refused.items():
        assert code_of(call) == code
    assert code_of(lambda: model.generate([8, IMAGE_TOKEN, 9])) == "E657"
    assert code_of(lambda: Session(bundle)) == code_of(lambda: bench(bundle, profile=True)) == "E155"
    # What was refused left nothing behind.
    assert len(model.generate("what is", images=[image], max_new_tokens=2).tokens) == 2


def test_an_image_for_a_model_without_vision_is_refused(tiny_bundle: Path) -> None:
    assert code_of(lambda: edgec.load(tiny_bundle).generate("what", images=[picture()])) == "E658"
    done = CliRunner().invoke(app, ["run", str(tiny_bundle), "--image", "absent.png", "-p", "what"])
    assert done.exit_code == 1 and getattr(done.exception, "code", "") == "E658"


@pytest.mark.parametrize(
    "family, given, code",
    [("qwen2_5_vl", "32*40", "E720"), ("qwen2_5_vl", "30x40", "E721"), (QUICK, "24x24", "E721"), ("", "24", "E721")],
)
def test_sizes_that_do_not_suit_the_model_are_refused(
    family: str, given: str, code: str, tiny_folder: Path, tmp_path: Path
) -> None:
    folder, out = save_vision_language(family, tmp_path / family) if family else tiny_folder, tmp_path / "x.edgec"
    assert code_of(lambda: edgec.export(folder, image_size=given, out=out)) == code
    assert not out.exists()


@pytest.mark.slow
def test_a_context_that_holds_no_image_is_refused(tmp_path: Path) -> None:
    folder = save_vision_language(QUICK, tmp_path / QUICK)
    assert code_of(lambda: edgec.export(folder, recipe="float", out=tmp_path / "x.edgec", context=20)) == "E651"


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_eight_bits_say_nearly_the_same_and_four_bits_something(family: str, tmp_path: Path) -> None:
    folder = save_vision_language(family, tmp_path / family)
    _, wanted = words(family, "<image>what is this", [picture()], 12)
    # The second token of Qwen2.5-VL's random weights leads by 1.6 %, and 8 bits move logits by 3 %.
    for recipe, target, same in (("8bit", "host", 1 if family == "qwen2_5_vl" else 2), ("4bit", "android-cpu", 0)):
        # Rounding moves random weights further than trained ones (4 bits the vision of Qwen2.5-VL by 0.37 of their
        # largest value); lowering keeps its own budgets.
        loose = {"max_relative": 0.5} if recipe == "4bit" else {}
        out, shape = tmp_path / f"{recipe}.edgec", size(family)
        given = ExportOptions(
            str(folder), recipe=recipe, target=target, out=out, context=CONTEXT, image_size=shape, budgets=loose
        )
        bundle = export_bundle(given)
        said = list(edgec.load(bundle).generate("what is this", images=[picture()], max_new_tokens=12).tokens)
        words_of = tiny_vision_language(family).config.get_text_config().vocab_size
        assert said[:same] == wanted[:same] and all(0 <= token < words_of for token in said) and said


@pytest.mark.slow
def test_parts_of_a_large_image_and_the_whole_are_read_one_after_the_other(tmp_path: Path) -> None:
    folder = save_vision_language("lfm2_vl", tmp_path / "lfm2_vl")
    out = tmp_path / "x.edgec"
    model = edgec.load(edgec.export(folder, recipe="float", out=out, context=CONTEXT, image_size="32"))
    image = picture(100, 60)
    seen = model.encode_images("what is this", [image])
    assert len(seen.pixels) == 7
    cut = [cut_whole(PatchesInfo(size=4, merge=2), torch.from_numpy(tile[None])) for tile in seen.pixels]
    given = {name: torch.cat([each[name] for each in cut]) for name in cut[0]}
    tokens = torch.tensor([seen.tokens])
    with torch.no_grad():
        wanted = tiny_vision_language("lfm2_vl").generate(tokens, **given, max_new_tokens=16, do_sample=False)
    said = model.generate("what is this", images=[image], max_new_tokens=16).tokens
    assert list(said) == wanted[0, len(seen.tokens) :].tolist()


@pytest.mark.slow
def test_the_text_part_alone_is_still_exported(tmp_path: Path) -> None:
    folder = save_vision_language(QUICK, tmp_path / QUICK)
    out = tmp_path / "x.edgec"
    manifest = open_bundle(
        edgec.export(folder, recipe="float", task="text-generation", out=out, context=CONTEXT)
    ).manifest
    assert manifest.vision_language is None and manifest.limits is not None
