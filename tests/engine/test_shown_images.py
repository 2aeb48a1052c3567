"""The runner's --image: the words of Python about the same images."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.bundle.image_preparation import PREPARATION, PreparationFile, preparation_bytes
from edgec.engine.compile.build import build_runner
from tests.engine.test_runner import run_runner
from tests.engine.vision_program import write_ppm
from tests.vision_bundles import CONTEXT, vision_bundle
from tests.vision_language import FAMILIES, picture

pytestmark = pytest.mark.long
QUICK, NEW_TOKENS = "llava", 12
EACH = [(QUICK, "8bit"), *(pytest.param((family, "float"), marks=pytest.mark.slow) for family in FAMILIES)]


def shown(folder: Path, images: list[Any]) -> list[str]:
    """The runner's options for images of Pillow."""
    words: list[str] = []
    for index, image in enumerate(images):
        write_ppm(image, folder / f"{index}.ppm")
        words += ["--image", str(folder / f"{index}.ppm")]
    return words


def refusal(*words: object) -> str:
    done = subprocess.run([build_runner().runner, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    return done.stderr


def listed(tokens: list[int]) -> str:
    return ",".join(map(str, tokens))


@pytest.mark.parametrize("each", EACH, ids="-".join)
def test_the_runner_says_about_images_what_python_says(each: tuple[str, str], tmp_path: Path) -> None:
    bundle, words = vision_bundle(*each), ("--packed", tmp_path / "packed", "--new-tokens", NEW_TOKENS)
    model = edgec.load(bundle)
    for images in ([picture(50, 40)], [picture(30, 90, seed=1), picture(seed=2)]):
        text = "is this a house"
        prompt = model.encode_images(text, images).tokens
        wanted = model.generate(text, images=images, max_new_tokens=NEW_TOKENS).tokens
        given = ("--bundle", bundle, *shown(tmp_path, images), "--tokens", listed(prompt), *words)
        _, seen, said = run_runner(*given)
        assert said["tokens"][: len(wanted)] == list(wanted) and said["prompt_tokens"] == len(prompt)
        assert seen["event"] == "images" and min(seen["prepare_ms"], seen["encode_ms"]) > 0
        assert [(each["width"], each["height"]) for each in seen["images"]] == [image.size for image in images]
    if each[0] == "paligemma":
        assert "images only" in refusal("--bundle", bundle, "--tokens", "8,9,10", *words)
        return
    wanted = model.generate([8, 9, 10, 11], max_new_tokens=NEW_TOKENS).tokens
    _, said = run_runner("--bundle", bundle, "--tokens", "8,9,10,11", *words)
    assert said["tokens"][: len(wanted)] == list(wanted)


def test_requests_share_the_images_and_are_checked(tmp_path: Path) -> None:
    bundle, images = vision_bundle(QUICK, "8bit"), [picture()]
    prompt = edgec.load(bundle).encode_images("is this", images).tokens
    ids = " ".join(map(str, prompt))
    lines = f"generate 4 {ids}\nreplay {len(prompt)} {ids}\nfeed 1 0 {len(prompt)} 1 {ids}\ngenerate 4 {ids}\n"
    _, _, first, replayed, fed, again = run_runner("--bundle", bundle, *shown(tmp_path, images), stdin=lines)
    assert first["tokens"] == again["tokens"] and replayed["top1"] == fed["top1"] == first["tokens"][:1]
    other = run_runner("--bundle", bundle, *shown(tmp_path, [picture(seed=9)]), "--tokens", listed(prompt), "--score")
    assert other[2]["event"] == "scored" and len(other[2]["top1"]) == len(prompt)


def test_what_makes_no_sense_is_refused(tiny_bundle: Path, tmp_path: Path) -> None:
    bundle, image = vision_bundle(QUICK, "8bit"), shown(tmp_path, [picture()])
    prompt = listed(edgec.load(bundle).encode_images("is this", [picture()]).tokens)
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    refused = {
        "has no vision": ("--bundle", tiny_bundle, *image, "--tokens", "1,2"),
        "--image needs --bundle": ("--model", bundle / "model.pte", *image, "--tokens", "1,2"),
        "P6": ("--bundle", bundle, "--image", tmp_path / "a.png", "--tokens", prompt),
        "no such file": ("--bundle", bundle, "--image", tmp_path / "none.ppm", "--tokens", prompt),
        "2 tiles of 9 rows, and 9 image tokens": ("--bundle", bundle, *image, *image, "--tokens", prompt),
        "0 tiles of 9 rows, and 9 image tokens": ("--bundle", bundle, "--tokens", prompt),
        f"do not fit into the context of {CONTEXT}": ("--bundle", bundle, *image * 40, "--tokens", prompt),
    }
    for why, words in refused.items():
        assert why in refusal(*words), why


def test_a_bundle_that_does_not_describe_its_images_is_refused_with_the_reason(tmp_path: Path) -> None:
    bundle, image = vision_bundle(QUICK, "8bit"), shown(tmp_path, [picture()])
    for file in bundle.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "images").unlink()
    assert "made by an older edgec" in refusal("--bundle", tmp_path, *image, "--tokens", "1,2")
    (tmp_path / "images").mkdir()
    (tmp_path / PREPARATION).write_bytes(preparation_bytes(PreparationFile(lacking="it scales no images")))
    assert "it scales no images" in refusal("--bundle", tmp_path, *image, "--tokens", "1,2")
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert PREPARATION in [file["path"] for file in manifest["files"]]
