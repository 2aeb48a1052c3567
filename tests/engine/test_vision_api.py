"""The C interface of vision, as an app calls it: the words of Python, statuses, and calls in a wrong order."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from ctypes import byref, c_int32, c_size_t
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec
from edgec.bundle.golden import probe_values
from tests.engine.vision_library import (
    DecoderSession,
    InputEmbeds,
    Refused,
    Vision,
    call,
    pixels_of,
    vision_library,
)
from tests.vision_bundles import CONTEXT, vision_bundle
from tests.vision_language import FAMILIES, picture

pytestmark = pytest.mark.long
QUICK, NEW_TOKENS = "llava", 8
EACH = [(QUICK, "8bit"), *(pytest.param((family, "float"), marks=pytest.mark.slow) for family in FAMILIES)]
OK, REFUSED, FAILED = 0, 1, 2
ABSENT, UNDESCRIBED, SIZE, TOO_MANY, MISPLACED, NEEDED, TOO_FAR = range(32, 39)


@pytest.fixture
def bundle() -> Path:
    return vision_bundle(QUICK, "8bit")


@pytest.fixture
def vision(bundle: Path) -> Iterator[Vision]:
    opened = Vision(bundle)
    yield opened
    opened.close()


@pytest.fixture
def session(bundle: Path) -> Iterator[DecoderSession]:
    opened = DecoderSession(bundle / "model.pte")
    yield opened
    opened.close()


def status_of(run: Callable[[], Any]) -> int:
    with pytest.raises(Refused) as refused:
        run()
    return refused.value.status


def seen(vision: Vision, images: list[Any]) -> None:
    vision.begin(len(images))
    for image in images:
        vision.add(image)
    while vision.step():
        pass


@pytest.mark.parametrize("each", EACH, ids="-".join)
def test_prompts_with_and_without_images_say_what_python_says(each: tuple[str, str]) -> None:
    bundle = vision_bundle(*each)
    model, vision, session = edgec.load(bundle), Vision(bundle), DecoderSession(bundle / "model.pte")
    for images in ([picture(50, 40)], [picture(30, 90, seed=1), picture(seed=2)], [picture(50, 40, seed=3)]):
        sizes, text = [image.size for image in images], "is this a house"
        prompt = model.encode_images(text, images).tokens
        written = model.tokenizer(vision.prompt(text, sizes), add_special_tokens=not vision.info().special_tokens)
        assert written["input_ids"] == prompt
        seen(vision, images)
        assert 0 <= vision.place(session.handle, prompt) <= prompt.index(vision.info().image_token)
        said = model.generate(text, images=images, max_new_tokens=NEW_TOKENS).tokens
        assert session.greedy(prompt, NEW_TOKENS)[: len(said)] == list(said)
    vision.begin(0)
    if each[0] == "paligemma":
        assert vision.info().needs_image and status_of(lambda: vision.place(session.handle, [8, 9])) == NEEDED
    else:
        assert vision.place(session.handle, [8, 9, 10]) == 3
        said = model.generate([8, 9, 10], max_new_tokens=NEW_TOKENS).tokens
        assert session.greedy([8, 9, 10], NEW_TOKENS)[: len(said)] == list(said)
    assert vision.times().prepare_ms == 0
    vision.close()
    session.close()


def test_what_is_kept_of_a_session_needs_no_second_reading(
    bundle: Path, vision: Vision, session: DecoderSession
) -> None:
    model, place = edgec.load(bundle), "<image>"
    first, other = [
        model.encode_images(f"is this a house with {place}", [picture(seed=seed)]).tokens for seed in (1, 2)
    ]
    seen(vision, [picture(seed=1)])
    assert vision.place(session.handle, first) == first.index(vision.info().image_token) == 5
    session.greedy(first, 2)
    seen(vision, [picture(seed=2)])
    kept = vision.place(session.handle, other)
    said = session.greedy(other, NEW_TOKENS, start=kept)
    assert said == session.greedy(other, NEW_TOKENS)


def test_the_golden_vector_is_replayed(bundle: Path, vision: Vision, session: DecoderSession) -> None:
    vector = json.loads((bundle / "golden.json").read_text())["outputs"][0]
    info = vision.info()
    vision.encode_images(probe_values([info.channels, info.height, info.width], "float32"))
    vision.place(session.handle, vector["prompt_ids"])
    said = session.greedy(vector["prompt_ids"], len(vector["continuation_ids"]))
    assert said == vector["continuation_ids"]
    assert status_of(lambda: vision.encode_images(np.zeros(5, np.float32))) == REFUSED


def test_facts_and_sizes_are_told(vision: Vision) -> None:
    info = vision.info()
    assert (info.channels, info.height, info.width, info.rows, info.context) == (3, 24, 24, 9, CONTEXT)
    assert info.placeholder == b"<image>" and not info.needs_image
    tiles = vision.tiles(640, 480)
    assert (tiles.columns, tiles.lines, tiles.tiles, tiles.tokens) == (1, 1, 1, 9)
    assert vision.text(640, 480) == "<image>" * 9
    assert vision.prompt("a \0 b<image>c", [(5, 5)]) == "a \0 b" + "<image>" * 9 + "c"
    assert vision.prompt("a b", []) == "a b"
    image = picture(33, 21)
    wanted = vision.prepare(image, 3 * 24 * 24)
    assert np.isfinite(wanted).all() and wanted.std() > 0.5


def test_images_and_prompts_that_do_not_fit_are_refused_by_their_own_status(
    vision: Vision, session: DecoderSession
) -> None:
    image, token = picture(), vision.info().image_token
    statuses = {
        (SIZE, "too long"): lambda: vision.tiles(101, 1),
        (SIZE, "empty"): lambda: vision.text(0, 1),
        (SIZE, "too large"): lambda: vision.prompt("", [(100_000, 100_000)]),
        (TOO_MANY, "begun"): lambda: vision.begin(CONTEXT),
        (TOO_MANY, "asked"): lambda: vision.prompt("", [(5, 5)] * 40),
        (MISPLACED, "named"): lambda: vision.prompt("<image><image>", [(5, 5)]),
        (MISPLACED, "no image"): lambda: vision.place(session.handle, [8, token]),
        (REFUSED, "one too many"): lambda: vision.add(image),
        (REFUSED, "none at all"): lambda: vision.text(5, 5, 0),
        (REFUSED, "negative"): lambda: vision.begin(-1),
        (REFUSED, "room"): lambda: vision.prepare(image, 5),
        (REFUSED, "no tokens"): lambda: vision.place(session.handle, []),
        (REFUSED, "too long a prompt"): lambda: vision.place(session.handle, [8] * (CONTEXT + 1)),
    }
    for (status, name), run in statuses.items():
        assert status_of(run) == status, name
    vision.begin(2)
    vision.add(image)
    assert status_of(lambda: vision.place(session.handle, [token] * 9)) == REFUSED
    assert vision.step() == 0 and vision.step() == 0
    vision.add(image)
    assert status_of(lambda: vision.place(session.handle, [token] * 18)) == REFUSED
    vision.step()
    assert status_of(lambda: vision.place(session.handle, [token] * 9)) == MISPLACED
    assert vision.place(session.handle, [token] * 18) == 0 and vision.times().encode_ms > 0


def test_pixels_that_contradict_themselves_are_refused(vision: Vision) -> None:
    vision.begin(1)
    for changed in ({"pixel_bytes": 2}, {"line_bytes": 7}, {"line_bytes": -1}, {"pixels": None}):
        pixels, _kept = pixels_of(picture())
        for name, value in changed.items():
            setattr(pixels, name, value)
        assert status_of(partial(call, "edgec_vision_add", vision.handle, byref(pixels))) == REFUSED
    null = (None, c_size_t(0))
    for name in ("edgec_vision_begin", "edgec_vision_add", "edgec_vision_step"):
        assert status_of(partial(call, name, None, None)) == REFUSED
    assert status_of(lambda: call("edgec_vision_encode", vision.handle, *null)) == REFUSED
    vision_library().edgec_vision_close(None)
    vision_library().edgec_vision_info(None, None)
    vision_library().edgec_vision_times(None, None)


def test_bundles_without_eyes_and_without_descriptions_are_told_apart(
    bundle: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    assert status_of(lambda: Vision(tiny_bundle)) == ABSENT
    assert status_of(lambda: Vision(tmp_path)) == FAILED
    shutil.copytree(bundle, tmp_path / "x.edgec")
    description = tmp_path / "x.edgec/images/preparation.json"
    description.write_text("{")
    assert status_of(lambda: Vision(tmp_path / "x.edgec")) == UNDESCRIBED
    description.unlink()
    assert status_of(lambda: Vision(tmp_path / "x.edgec")) == UNDESCRIBED
    status = c_int32(7)
    assert not vision_library().edgec_vision_open(None, None, None, byref(status), None, c_size_t(0))
    assert status.value == REFUSED


def test_a_failed_encoder_leaves_nothing_behind(bundle: Path, session: DecoderSession, tmp_path: Path) -> None:
    vision = Vision(bundle, tmp_path / "absent.pte")
    vision.begin(1)
    vision.add(picture())
    assert status_of(vision.step) == FAILED
    assert vision.step() == 0 and vision.place(session.handle, [8]) == 1
    vision.close()


def test_embeds_that_do_not_fit_a_decoder_are_refused(bundle: Path, session: DecoderSession, tiny_bundle: Path) -> None:
    embeds, places = np.ones((2, session.embeds_width()), np.float32), np.array([0, 2])

    def given(**changed: Any) -> InputEmbeds:
        fields = {"token_count": 3, "embeds": embeds.ctypes.data, "count": 2, "width": embeds.shape[1]}
        return InputEmbeds(**{**fields, "positions": places.ctypes.data, **changed})

    session.put_embeds(given())
    wrong = np.array([[0, 3], [2, 0], [-1, 0], [1, 1]])
    faults: list[dict[str, Any]] = [
        {"width": 5},
        {"count": 4},
        {"count": -1},
        {"token_count": 1 << 40},
        {"embeds": None},
        {"span_end": places.ctypes.data},
        {"mrope": places.ctypes.data},
        {"mrope_next": -1},
        *({"positions": each.ctypes.data} for each in wrong),
    ]
    for changed in faults:
        assert status_of(partial(session.put_embeds, given(**changed))) == REFUSED, changed
    assert session.call_size(0, 3) == 3 and session.call_size(3, 3) == session.call_size(-1, 3) == 0
    session.put_embeds(None)
    blind = DecoderSession(tiny_bundle / "model.pte")
    assert blind.embeds_width() == 0 and status_of(lambda: blind.put_embeds(given())) == REFUSED
    assert blind.call_size(0, 10_000) < 10_000 and blind.call_size(5, 7) == 2
    blind.close()


def test_a_session_that_is_closed_forgets_its_rows(bundle: Path, vision: Vision) -> None:
    session = DecoderSession(bundle / "model.pte")
    text, token = [8, 9, 10, 11], vision.info().image_token
    wanted = session.forward(text, 0)
    seen(vision, [picture()])
    vision.place(session.handle, [token] * 9)
    assert np.abs(session.forward(text, 0) - wanted).max() > 0.01
    session.reopen()
    assert np.array_equal(session.forward(text, 0), wanted)
    session.close()


@pytest.mark.slow
def test_calls_that_end_before_what_their_tokens_see_are_refused() -> None:
    bundle = vision_bundle("gemma3", "float")
    vision, session = Vision(bundle), DecoderSession(bundle / "model.pte")
    prompt = edgec.load(bundle).encode_images("is this a house", [picture()]).tokens
    seen(vision, [picture()])
    vision.place(session.handle, prompt)
    first = prompt.index(vision.info().image_token)
    assert session.call_size(0, len(prompt)) == len(prompt)
    assert session.call_size(0, first + 2) == first and session.call_size(first, first + 2) == 0
    assert status_of(lambda: session.forward(prompt[: first + 2], 0)) == REFUSED
    vision.close()
    session.close()
