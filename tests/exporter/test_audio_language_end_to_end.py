"""Speech-language models through the whole of ``edgec.export``: transformers' words, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import edgec
from edgec.apps.embed.embed import embed
from edgec.bundle.folder import open_bundle
from edgec.cli.app import app
from edgec.devices.job import Job
from edgec.errors import InputError
from edgec.exporter.report.headline import next_commands
from edgec.runtime_py.bench.bench import bench
from edgec.runtime_py.bench.job import run_job
from edgec.runtime_py.bench.shown_prompt import ShownPrompt, open_session, prompt_of
from edgec.runtime_py.media import sound_file
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.verify.verify import verify
from tests.audio_language import (
    AUDIO_MARKS,
    FAMILIES,
    MARKS,
    given_by,
    noise,
    processor,
    save_audio_language,
    tiny_audio_language,
)
from tests.speech_bundles import write_wav

pytestmark = pytest.mark.long

QUICK, CONTEXT = "qwen2_audio", 160
# How many words are compared: 8 bits are lowered much faster, and move the logits of random weights by 3 %.
COUNTS = {"8bit": 2, "float": 16}
EACH = [(QUICK, "8bit"), *(pytest.param((family, "float"), marks=pytest.mark.slow) for family in FAMILIES)]


@dataclass(frozen=True)
class Exported:
    """A family's bundle, and how many of its words are those of the float model."""

    family: str
    bundle: Path
    count: int

    @property
    def mark(self) -> str:
        """The family's placeholder."""
        return AUDIO_MARKS[self.family]


@pytest.fixture(scope="module", params=EACH, ids="-".join)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A family's bundle by a recipe."""
    family, recipe = request.param
    folder = save_audio_language(family, tmp_path_factory.mktemp(family) / family)
    bundle = edgec.export(folder, recipe=recipe, out=folder.parent / "x.edgec", context=CONTEXT)
    return Exported(family, bundle, COUNTS[recipe])


def words(family: str, text: str, sounds: Sequence[Any], count: int) -> list[int]:
    """The new tokens of transformers' own greedy generation; ``text`` has the placeholders."""
    given = given_by(family, text, sounds)
    with torch.no_grad():
        out = tiny_audio_language(family).generate(**given, max_new_tokens=count, do_sample=False)
    said: list[int] = out[0, given["input_ids"].shape[1] :].tolist()
    return said


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as error:
        call()
    return error.value.code


def test_the_words_are_those_of_transformers_sound_after_sound(exported: Exported, tmp_path: Path) -> None:
    family, count = exported.family, exported.count
    model = edgec.load(exported.bundle)
    # A part of a window, two rows (of one alone, Qwen2-Audio's own code takes a path that fails without a mask of the
    # text), a whole window; and where the family reads them, one and a half.
    for index, seconds in enumerate((1.3, 0.07, 2.0, *([] if family == QUICK else [3.1]))):
        sound = noise(seconds, seed=index)
        wanted = words(family, f"{exported.mark}what is said", [sound], count)
        # edgec puts the words around a sound that a processor leaves to its chat template.
        text = f"{exported.mark}what is said"
        for given in (write_wav(tmp_path / "a.wav", sound), sound):
            assert list(model.generate(text, audio=[given], max_new_tokens=count).tokens) == wanted


def test_a_sound_without_a_place_comes_first(exported: Exported) -> None:
    family, count, around = exported.family, exported.count, ("", "")
    if family in ("voxtral", "qwen2_audio"):
        around = {"voxtral": ("[BEGIN_AUDIO]", ""), "qwen2_audio": ("<|audio_bos|>", "<|audio_eos|>")}[family]
    # After the sound of seed 0 two logits lie 0.08 apart, which 8 bits move as far.
    sound = noise(1, seed=2)
    wanted = words(family, f"{around[0]}{exported.mark}{around[1]}what is said", [sound], count)
    model = edgec.load(exported.bundle)
    assert list(model.generate("what is said", audio=[sound], max_new_tokens=count).tokens) == wanted


def test_two_sounds_at_places_of_the_text(exported: Exported) -> None:
    family, count, mark = exported.family, exported.count, exported.mark
    if family in ("audioflamingo3", "glmasr"):
        pytest.skip("transformers' processor takes one sound with a text")
    sounds, text = [noise(0.7), noise(1.2, seed=1)], f"what {mark} is said {mark} here"
    wanted = words(family, text, sounds, count)
    assert list(edgec.load(exported.bundle).generate(text, audio=sounds, max_new_tokens=count).tokens) == wanted


def test_the_chat_template_has_a_place_for_the_sound(exported: Exported) -> None:
    family, count = exported.family, exported.count
    model = edgec.load(exported.bundle)
    if family == "voxtral":
        assert not model.has_template
        return
    made, part = processor(family), {"type": "audio", "audio": noise(1)}
    parts = [part, {"type": "text", "text": "what is said"}]
    # Qwen2-Audio's template is in its processor's class, and goes into the bundle from there.
    text = made.apply_chat_template([{"role": "user", "content": parts}], tokenize=False, add_generation_prompt=True)
    wanted = words(family, text, [noise(1)], count)
    said = model.generate("what is said", audio=[noise(1)], template=True, max_new_tokens=count)
    assert list(said.tokens) == wanted and model.chat().say("what", model.request(max_new_tokens=2)) is not None


def test_text_alone_is_continued_and_the_sound_before_it_is_forgotten(exported: Exported) -> None:
    family, count = exported.family, exported.count
    model, text = edgec.load(exported.bundle), [14, 15, 16, 17, 18]
    with torch.no_grad():
        out = tiny_audio_language(family).generate(torch.tensor([text]), max_new_tokens=count, do_sample=False)
    model.generate("what is said", audio=[noise(1)], max_new_tokens=2)
    for resume in (False, True):
        assert list(model.generate(text, max_new_tokens=count, resume=resume).tokens) == out[0, len(text) :].tolist()
    stream = model.stream("what is", audio=[noise(1)], max_new_tokens=4)
    said = model.generate("what is", audio=[noise(1)], max_new_tokens=4)
    # The words of random weights may all be marks, which a text leaves out.
    assert "".join(stream) == said.text and stream.result is not None and stream.result.tokens == said.tokens


def test_another_sound_in_the_same_prompt_is_heard_again(exported: Exported) -> None:
    family, count, text = exported.family, exported.count, f"{exported.mark}what is said"
    model = edgec.load(exported.bundle)
    for seed in (3, 4, 4):
        wanted = words(family, text, [noise(1, seed)], count)
        said = model.generate(text, audio=[noise(1, seed)], max_new_tokens=count, resume=True)
        assert list(said.tokens) == wanted


def test_the_ladder_executes_every_method_and_the_bundle_verifies(exported: Exported) -> None:
    manifest = open_bundle(exported.bundle).manifest
    assert [method.name for method in manifest.methods] == ["audio_encoder", "forward"]
    executed = [rung.stage for rung in manifest.parity if "artifact" in rung.stage]
    assert executed == ["audio_encoder: artifact", "forward: artifact", "artifact, from features to logits"]
    assert manifest.limits is None and manifest.audio_language is not None
    assert manifest.audio_language.audio_token == MARKS.index(exported.mark)
    assert manifest.model.family == exported.family and manifest.model.task == "audio-text-to-text"
    assert "--audio" in next_commands(manifest)[0] and verify(exported.bundle).passed


def test_the_command_answers_about_a_sound(exported: Exported, tmp_path: Path) -> None:
    family, count = exported.family, exported.count
    file = write_wav(tmp_path / "a.wav", noise(1.1))
    text = f"{exported.mark}what is said"
    options = ["--audio", str(file), "-p", text, "--raw", "--max-new-tokens", str(count), "--json"]
    done = CliRunner().invoke(app, ["run", str(exported.bundle), *options])
    wanted = words(family, text, [noise(1.1)], count)
    assert done.exit_code == 0 and f'"tokens": {wanted}' in done.stdout
    for more in (["--chat"], []):
        refused = CliRunner().invoke(app, ["run", str(exported.bundle), "--audio", str(file), *more])
        assert refused.exit_code == 1 and getattr(refused.exception, "code", "") == "E156"


def test_a_lap_of_bench_hears_a_window_first(exported: Exported) -> None:
    bundle = open_bundle(exported.bundle)
    info = bundle.manifest.audio_language
    assert info is not None
    asked, session = prompt_of(bundle, info.rows + 6), open_session(bundle, 1)
    assert asked.tokens.count(info.audio_token) == info.rows and len(asked.tokens) == info.rows + 6
    assert code_of(lambda: ShownPrompt(asked.tokens).begin(session)) == "E754"
    job = Job("speed", str(exported.bundle), prompt_tokens=info.rows + 6, new_tokens=4, repetitions=2, threads=1)
    assert [len(each["gaps_s"]) for each in run_job(job)["laps"]] == [3, 3]


def test_bad_sounds_and_foreign_uses_are_refused(exported: Exported, tmp_path: Path) -> None:
    model, sound, mark = edgec.load(exported.bundle), noise(1), exported.mark
    (tmp_path / "text.wav").write_text("no sound")
    refused = {
        "E152": lambda: model.generate([14, 15], audio=[sound]),
        "E177": lambda: model.generate("what", audio=[tmp_path / "text.wav"]),
        "E178": lambda: model.generate("what", audio=[np.zeros(0, np.float32)]),
        "E658": lambda: model.generate("what", images=["a.png"]),
        "E752": lambda: embed(exported.bundle, "android", tmp_path / "app"),
        "E754": lambda: model.generate(f"{mark}what", audio=[sound, sound]),
    }
    for code, call in refused.items():
        assert code_of(call) == code
    assert code_of(lambda: model.generate([14, MARKS.index(mark), 15])) == "E754"
    assert code_of(lambda: Session(exported.bundle)) == code_of(lambda: bench(exported.bundle, profile=True)) == "E155"
    # What was refused left nothing behind.
    assert len(model.generate("what is", audio=[sound], max_new_tokens=2).tokens) == 2


def test_sounds_beyond_the_context_are_refused_before_a_sample_is_read(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, file = edgec.load(exported.bundle), write_wav(tmp_path / "a.wav", noise(2))
    monkeypatch.setattr(sound_file, "_samples", lambda *_: pytest.fail("samples were read"))
    assert code_of(lambda: model.generate("what", audio=[file] * 7)) == "E150"


def test_a_sound_for_a_model_without_ears_is_refused(tiny_bundle: Path) -> None:
    assert code_of(lambda: edgec.load(tiny_bundle).generate("what", audio=[noise(1)])) == "E753"
    done = CliRunner().invoke(app, ["run", str(tiny_bundle), "--audio", "absent.wav", "-p", "what"])
    assert done.exit_code == 1 and getattr(done.exception, "code", "") == "E753"


@pytest.mark.parametrize("target", ["iphone", "snapdragon-8-elite"])
def test_targets_of_fixed_shapes_are_refused_before_any_work(target: str, tmp_path: Path) -> None:
    folder = save_audio_language(QUICK, tmp_path / QUICK)
    assert code_of(lambda: edgec.export(folder, target=target, out=tmp_path / "x.edgec")) == "E752"
    assert not (tmp_path / "x.edgec").exists()


@pytest.mark.slow
def test_a_context_that_holds_no_window_is_refused(tmp_path: Path) -> None:
    folder = save_audio_language(QUICK, tmp_path / QUICK)
    assert code_of(lambda: edgec.export(folder, recipe="float", out=tmp_path / "x.edgec", context=60)) == "E752"


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_eight_bits_say_nearly_the_same_and_four_bits_something(family: str, tmp_path: Path) -> None:
    folder = save_audio_language(family, tmp_path / family)
    text, sound = f"{AUDIO_MARKS[family]}what is said", noise(1.3)
    wanted = words(family, text, [sound], 12)
    vocabulary = tiny_audio_language(family).config.get_text_config().vocab_size
    for recipe, target, same in (("8bit", "host", 1), ("4bit", "host", 0), ("4bit", "android-cpu", 0)):
        # Rounding moves random weights further than trained ones: four bits left 0.62 of the likeliest tokens as they
        # were, where 0.7 is the least for trained ones. Lowering keeps its own budgets.
        out, budgets = tmp_path / f"{recipe}-{target}.edgec", {} if same else {"top1_agreement": 0.3}
        bundle = edgec.export(folder, recipe=recipe, target=target, out=out, context=CONTEXT, budgets=budgets)
        said = list(edgec.load(bundle).generate(text, audio=[sound], max_new_tokens=12).tokens)
        assert said[:same] == wanted[:same] and all(0 <= token < vocabulary for token in said) and said


@pytest.mark.slow
def test_the_text_part_alone_is_still_exported(tmp_path: Path) -> None:
    folder, out = save_audio_language(QUICK, tmp_path / QUICK), tmp_path / "x.edgec"
    bundle = edgec.export(folder, recipe="float", task="text-generation", out=out, context=CONTEXT)
    manifest = open_bundle(bundle).manifest
    assert manifest.audio_language is None and manifest.limits is not None
