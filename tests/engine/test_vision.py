"""The runner's images against Pillow's and against transformers' own processors: sizes, tiles, texts, positions."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
from PIL import Image

from edgec.bundle.entry_points import Limits, VisionLanguageInfo
from edgec.bundle.image_preparation import PREPARATION, PreparationFile
from edgec.bundle.mrope import mrope_positions
from edgec.bundle.noncausal_spans import span_ends
from tests.engine.vision_program import VisionProgram, vision_program, write_ppm, write_vision
from tests.image_preparations import CASES, EDGES, PUBLISHED, PreparedCase
from tests.vision_language import picture

SIZES = [(1, 1), (2, 3), (17, 31), (100, 60), (90, 1), (3, 200), (255, 254)]
INFO = VisionLanguageInfo(
    limits=Limits(context=64, prefill_chunk=32, logit_rows=16), channels=3, height=4, width=6, rows=6, image_token=4
)
# Pillow before 13 mixes in another order where the height shrinks most.
SAME_ORDER = int(PIL.__version__.split(".")[0]) >= 13
LEVELS = 0 if SAME_ORDER else 1
# LFM2-VL's values are rounded in another order; a grey level is 0.004 to 0.015.
ROUNDING = 1e-6 if SAME_ORDER else 0.016


@pytest.fixture(scope="module")
def program() -> VisionProgram:
    return vision_program()


def difference(made: np.ndarray, wanted: Any) -> int:
    """By how many levels two images differ at most."""
    return int(np.abs(made.astype(int) - np.asarray(wanted)).max())


@pytest.mark.long
@pytest.mark.parametrize("how", range(6))
def test_images_are_scaled_to_the_bytes_of_pillow(program: VisionProgram, how: int, tmp_path: Path) -> None:
    for size in SIZES:
        image = picture(*size)
        for other in [*SIZES, (size[0], 9), (9, size[1])]:
            made = program.scaled(image, other, how, tmp_path / "a.ppm")
            assert difference(made, image.resize(other, how)) <= LEVELS, (size, other)


def test_pixels_of_four_bytes_in_longer_lines_are_read_too(program: VisionProgram, tmp_path: Path) -> None:
    image = picture(37, 21)
    for how, size in ((0, (9, 8)), (1, (64, 5)), (3, (37, 50)), (2, (37, 21)), (2, (20, 19)), (3, (37, 4))):
        made = program.scaled(image, size, how, tmp_path / "a.ppm", 4)
        assert difference(made, image.resize(size, how)) <= LEVELS


def test_flat_and_extreme_colours_stay_within_a_byte(program: VisionProgram, tmp_path: Path) -> None:
    checks = (np.indices((40, 40)).sum(0) % 2 * 255).astype(np.uint8)
    for values in (np.zeros((40, 40, 3)), np.full((40, 40, 3), 255), np.repeat(checks[..., None], 3, 2)):
        image = Image.fromarray(values.astype(np.uint8))
        for how in range(1, 6):
            made = program.scaled(image, (23, 61), how, tmp_path / "a.ppm")
            assert difference(made, image.resize((23, 61), how)) <= LEVELS


def vision(case: PreparedCase, folder: Path) -> tuple[Any, Path]:
    """A case's processor, and the folder with what an export writes down of it."""
    prompts = case.prompts(folder)
    return prompts, write_vision(folder, prompts.info, case.described(folder))


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", CASES)
def test_tiles_and_texts_are_those_of_the_processor(program: VisionProgram, name: str, tmp_path: Path) -> None:
    prompts, bundle = vision(CASES[name], tmp_path)
    words, shape = CASES[name].tokenizer, (3, prompts.info.height, prompts.info.width)
    own = json.loads((bundle / PREPARATION).read_text())["preparation"]["texts"]
    options = {"add_special_tokens": False} if own.get("special_tokens") == "never" else {}
    for size in EDGES:
        image, text = picture(*size), "is this a house"
        wanted = prompts.prompt(text, [image], rendered=False)
        np.testing.assert_allclose(program.tiles(image, bundle, shape), wanted.pixels, rtol=0, atol=ROUNDING)
        assert words(program.text(text, bundle, [size]), **options)["input_ids"] == wanted.tokens
    place = own["placeholder"]
    sizes, text = EDGES[-5:-1], f"what {place} is {place} this {place} and {place} here"
    images = [picture(*size) for size in sizes]
    wanted = prompts.prompt(text, images, rendered=False)
    assert words(program.text(text, bundle, sizes), **options)["input_ids"] == wanted.tokens
    tiles = np.concatenate([program.tiles(image, bundle, shape, len(images)) for image in images])
    np.testing.assert_allclose(tiles, wanted.pixels, rtol=0, atol=ROUNDING)
    assert "refused 36" in program.refusal("text", bundle, f"one {place}", 5, 5, 6, 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_settings_make_the_same_tiles(program: VisionProgram, name: str, tmp_path: Path) -> None:
    prompts, bundle = vision(PUBLISHED[name], tmp_path)
    shape = (3, prompts.info.height, prompts.info.width)
    for size in ((1600, 1200), (333, 1000), (40, 30), (7, 700)):
        image = picture(*size)
        wanted = prompts.prompt("what", [image], rendered=False).pixels
        np.testing.assert_allclose(program.tiles(image, bundle, shape), wanted, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("ahead", ["none", "image", "prompt"])
@pytest.mark.parametrize("grid", [None, (2, 3)])
def test_reach_and_positions_are_those_of_python(
    program: VisionProgram, ahead: Any, grid: tuple[int, int] | None, tmp_path: Path
) -> None:
    info = INFO.model_copy(update={"ahead": ahead, "grid": grid})
    write_vision(tmp_path, info, PreparationFile(lacking="not needed here"))
    row = [4] * 6
    for tokens in ([9, 9, *row, 9, 8], [*row, *row, 7], [9, *row, 9, *row], [1, 2, 3]):
        made = json.loads(program.made("places", tmp_path, *tokens))
        span_end = span_ends(ahead, tokens, 4, len(tokens))
        assert made["rows"] == np.flatnonzero(np.asarray(tokens) == 4).tolist()
        assert (made["span_end"] or list(range(len(tokens)))) == span_end.tolist()
        mrope = mrope_positions(tokens, 4, grid, len(tokens) + 1) if grid else np.zeros((3, 0), int)
        assert made["mrope"] == mrope[:, : len(tokens)].ravel().tolist()
        assert not grid or made["next"] == mrope[0, -1]
        changed = [*made["rows"], *np.flatnonzero(span_end > np.arange(len(tokens))).tolist()]
        assert made["kept"] == min(changed, default=len(tokens))


def test_images_beyond_the_limits_are_refused_before_memory_is_taken(program: VisionProgram, tmp_path: Path) -> None:
    for width, height in ((0, 5), (5, 0), (20_000, 20_000), (101, 1), (1, 101), (1 << 31, 1)):
        (tmp_path / "a.ppm").write_bytes(b"P6 %d %d 255\n" % (width, height))
        refusal = program.refusal("scaled", tmp_path / "a.ppm", 4, 4, 3)
        assert "refused 34" in refusal or "is more than" in refusal
    bundle = write_vision(tmp_path, INFO, CASES["llava"].described(tmp_path))
    assert "refused 34" in program.refusal("text", bundle, "", 101, 1)


BAD = {
    "nothing": b"",
    "another kind": b"\x89PNG\r\n\x1a\n",
    "text": b"P3 1 1 255\n0 0 0",
    "16 bits": b"P6 1 1 65535\n000000",
    "few colours": b"P6 1 1 15\n000",
    "no numbers": b"P6 one 1 255\n000",
    "negative": b"P6 -1 1 255\n000",
    "cut header": b"P6 1",
    "cut pixels": b"P6 2 2 255\n00000000000",
    "endless word": b"P6 " + b"1" * 100_000,
    "endless comment": b"P6 #" + b"x" * 100_000,
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_no_ppm_are_refused(program: VisionProgram, name: str, tmp_path: Path) -> None:
    (tmp_path / "a.ppm").write_bytes(BAD[name])
    assert "P6" in program.refusal("scaled", tmp_path / "a.ppm", 4, 4, 3)


def test_comments_and_spaces_of_a_header_are_skipped(program: VisionProgram, tmp_path: Path) -> None:
    (tmp_path / "a.ppm").write_bytes(b"P6\n# made by # hand\n2\t# wide\n 1\r\n255 abcdef")
    assert program.made("scaled", tmp_path / "a.ppm", 2, 1, 3) == b"abcdef"


def test_descriptions_that_python_refuses_are_refused(program: VisionProgram, tmp_path: Path) -> None:
    _, bundle = vision(CASES["internvl"], tmp_path)
    path = bundle / PREPARATION
    text = path.read_text()
    for old, new in (
        ('"proportions"', '"longest_edge"'),
        ('"stretch"', '"cover"'),
        ('"stretch"', '"squeeze"'),
        ('"most": 4', '"most": 65'),
        ('"most": 4', '"most": 0'),
        ('"scale": 0.', '"scale": -0.'),
        ('"fewest"', '"fewer"'),
        ('"rule": "proportions",', ""),
        ('"row": "<image>"', '"row": ""'),
        ('"row": "<image>"', '"row": null'),
        ('"preparation"', '"lacking": "it", "preparation"'),
    ):
        assert old in text
        path.write_text(text.replace(old, new, 1))
        assert "refused 33" in program.refusal("text", bundle, "", 5, 5), (old, new)
    path.write_bytes(b'{"lacking": "its processor makes other tiles"}')
    assert "its processor makes other tiles" in program.refusal("text", bundle, "", 5, 5)
    (bundle / "manifest.json").write_text('{\n  "vision_language": null\n}\n')
    assert "refused 32" in program.refusal("text", bundle, "", 5, 5)


@pytest.mark.long
def test_damaged_files_end_in_refusals_alone(program: VisionProgram, tmp_path: Path) -> None:
    """Sanitizers watch every call; what still describes something within the limits may be carried out."""
    chance, counts = random.Random(0), {0: 0, 1: 0}
    for name in ("idefics3", "lfm2_vl", "qwen2_vl", "llava"):
        folder = tmp_path / name
        folder.mkdir()
        _, bundle = vision(CASES[name], folder)
        write_ppm(picture(50, 40), bundle / "image.ppm")
        whole = {path: path.read_bytes() for path in (bundle / PREPARATION, bundle / "manifest.json")}
        for _ in range(40):
            path = chance.choice(list(whole))
            damaged = bytearray(whole[path])
            for _ in range(chance.randint(1, 4)):
                place = chance.randrange(len(damaged))
                damaged[place : place + chance.choice((0, 1, 1, 20))] = chance.choice(
                    (b"9", b"0", b"", b"{", b"99999", b"\xff")
                )
            path.write_bytes(damaged)
            counts[program.run("tiles", bundle, bundle / "image.ppm", 1).returncode] += 1
            path.write_bytes(whole[path])
    assert counts[0] > 5 and counts[1] > 50, counts
