"""The generated Swift packages of models that see, built by SwiftPM on Linux: Python's prompts and tokens."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec
from edgec.apps.embed.embed import embed
from edgec.bundle.chat_template import render_parts
from edgec.runtime_py.media.image_file import read_image
from edgec.runtime_py.vision_language.processor import Prompt
from tests.apps.swift_builds import Built, build, build_again
from tests.apps.swift_bundles import any_version
from tests.apps.swift_toolchain import WORK, Swift
from tests.apps.vision_app_answers import (
    FAMILIES,
    MOST,
    QUESTION,
    READ,
    accepted_labels,
    assert_greedy,
    assert_text,
    in_base64,
    known_words,
    numbers,
    placeholder_of,
    turn,
    written_files,
)
from tests.apps.vision_app_bundles import vision_bundle
from tests.vision_language import picture
from tests.vision_words import IMAGE_TOKEN

# Four exports and a build of the engine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
MAIN = Path(__file__).parent / "swift_vision" / "main.swift"
TARGET = "iphone-16-pro-cpu"


@dataclass(frozen=True)
class Ran:
    """What a package printed, the bundle that it was made of, and its two pictures."""

    bundle: Path
    pictures: tuple[Path, Path]
    files: Path
    said: dict[str, str]

    @property
    def mark(self) -> str:
        """What stands in a text for an image."""
        return placeholder_of(self.bundle)


@pytest.fixture(scope="module")
def packages(swift: Swift) -> dict[str, Ran]:
    """The package of each family: all have one name and one engine, so that only the Swift is built again."""
    folder = swift.work / "vision"
    folder.mkdir()
    bundles = {family: vision_bundle(family, TARGET) for family in FAMILIES}
    modules = {embed(bundle, "ios", folder / family).package.module for family, bundle in bundles.items()}
    (module,) = modules
    assert len({(folder / family / "Package.swift").read_text() for family in FAMILIES}) == 1
    pictures = folder / "a.png", folder / "b.png"
    picture(50, 40).save(pictures[0])
    picture(30, 90, seed=1).save(pictures[1])
    files = _with_pages(written_files(folder / "files"))
    ran = {}
    for family, bundle in bundles.items():
        built = _built(swift, folder, family, module)
        asked = _asked(bundle, folder / f"{family}.own", pictures, files if family == FAMILIES[0] else None)
        said = _said(built, asked)
        ran[family] = Ran(bundle, pictures, files, said)
    return ran


def _built(swift: Swift, folder: Path, family: str, module: str) -> Built:
    """The program over a family's package."""
    any_version(folder / family / "Sources" / module)
    if not (folder / "kit").exists():
        shutil.copytree(folder / family, folder / "kit")
        beside = [MAIN.with_name("WordTokenizer.swift"), folder / "kit" / "Sample" / "EdgecChat" / "ChatModel.swift"]
        return build(swift, folder, module, MAIN.read_text().replace("KIT", module), beside)
    there = folder / "kit" / "Sources" / module
    shutil.rmtree(there)
    shutil.copytree(folder / family / "Sources" / module, there, copy_function=shutil.copy)
    return build_again(swift, folder)


def _said(built: Built, asked: Path) -> dict[str, str]:
    home = f"HOME={_seen(asked.parent)}"
    done = built.swift.run(["env", home, "timeout", "300", built.program, _seen(asked)])
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def _seen(path: Path) -> str:
    """A path as the program has it."""
    below = path.parts[path.parts.index("vision") :]
    return "/".join((WORK, *below))


def _asked(bundle: Path, own: Path, pictures: tuple[Path, Path], files: Path | None) -> Path:
    """The program's input: the bundle, its tokenizer, pixels, and what a system knows of files."""
    shutil.copytree(bundle, own / "bundle")
    images = [read_image(path) for path in pictures]
    asked = {
        "bundle": _seen(own / "bundle"),
        "mark": placeholder_of(bundle),
        "altered": _seen(_altered(bundle, own / "altered")),
        "accepted": accepted_labels(bundle),
        "words": known_words(bundle),
        "pictures": [{"width": image.width, "height": image.height, "rgb": in_base64(image)} for image in images],
        "files": {_seen(path): _known(path) for path in sorted(files.iterdir())} if files else {},
    }
    (own / "asked.json").write_text(json.dumps(asked))
    return own / "asked.json"


def _altered(bundle: Path, folder: Path) -> Path:
    """A folder with golden vectors that are not the model's."""
    folder.mkdir()
    golden = json.loads((bundle / "golden.json").read_text())
    for output in golden["outputs"]:
        output["continuation_ids"] = [(token + 1) % 8 for token in output["continuation_ids"]]
    (folder / "golden.json").write_text(json.dumps(golden))
    return folder


def _known(path: Path) -> dict[str, Any] | None:
    """What a system knows of a file: its size, how it was stored, and its pixels where they can be decoded."""
    from PIL import Image

    try:
        image = Image.open(path)
    except (OSError, Image.DecompressionBombError):
        return _known_of_header(path.read_bytes())
    known = {"width": image.width, "height": image.height, "orientation": image.getexif().get(0x0112)}
    known |= {"isGrey": image.mode in ("L", "I;16"), "depth": 16 if image.mode == "I;16" else 8}
    try:
        pixels = None if image.mode == "I;16" else in_base64(image.convert("RGBA"))
    except (OSError, SyntaxError):
        pixels = None
    return {**known, "isIndexed": image.mode == "P", "pixels": pixels}


def _known_of_header(content: bytes) -> dict[str, Any] | None:
    """The same for a file that Pillow does not open: the size of a PNG."""
    if not content.startswith(b"\x89PNG"):
        return None
    width, height = struct.unpack(">II", content[16:24])
    return {"width": width, "height": height, "isGrey": False, "isIndexed": False}


def _with_pages(folder: Path) -> Path:
    """The folder with files of a kind that Android does not decode."""
    from PIL import Image

    noise = picture(7, 5)
    noise.save(folder / "still.tif")
    noise.save(folder / "pages.tif", save_all=True, append_images=[picture(7, 5, seed=1)])
    Image.new("I;16", (7, 5), 300).save(folder / "deep.tif")
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_and_answers_are_those_of_python(packages: dict[str, Ran], family: str) -> None:
    ran = packages[family]
    model, (first, second) = edgec.load(ran.bundle), ran.pictures
    asked = {
        **dict.fromkeys(("first", "back"), (QUESTION, [first])),
        **dict.fromkeys(("second", "again"), (QUESTION, [second])),
        "two": (f"what {ran.mark} is this {ran.mark} here", [first, second]),
    }
    for name, (text, images) in asked.items():
        prompt = model.encode_images(text, images)
        assert ran.said[f"{name} prompt"] == str(prompt.tokens), name
        said = numbers(ran.said[name])
        assert len(said) == MOST, name
        assert_greedy(ran.bundle, prompt, said)
        assert_text(ran.said[f"{name} text"], said, model, text, images)
    assert ran.said["first"] != ran.said["second"]


@pytest.mark.parametrize("family", FAMILIES)
def test_text_alone_after_an_image_is_as_before_it(packages: dict[str, Ran], family: str) -> None:
    ran = packages[family]
    if family == "paligemma":
        assert ran.said["text"].startswith("imageNeeded(")
        return
    assert_greedy(ran.bundle, Prompt([8, 9, 10, 11, 12], np.zeros((0, 3, 1, 1), np.float32)), numbers(ran.said["text"]))


@pytest.mark.parametrize("family", FAMILIES)
def test_conversations_are_those_of_the_template(packages: dict[str, Ran], family: str) -> None:
    ran = packages[family]
    model, (first, second) = edgec.load(ran.bundle), ran.pictures
    prompt = model.encode_images(QUESTION, [first], template=True)
    assert ran.said["chat prompt"] == str(prompt.tokens) and ran.said["reply"] == ran.said["chat"] == "true"
    assert_greedy(ran.bundle, prompt, numbers(ran.said["chat tokens"]))
    talk = [turn("user", QUESTION, 1), turn("assistant", "a house"), turn("user", "with two doors")]
    shown = [*talk, turn("assistant", "and here"), turn("user", "is this", 1)]
    for name, messages, images in (("talk", talk, [first]), ("shown", shown, [first, second])):
        rendered = render_parts(model.tokenizer, messages)
        made = model._processor.prompt(rendered, [read_image(image) for image in images], rendered=True)
        assert ran.said[f"{name} prompt"] == str(made.tokens) and ran.said[f"{name} same"] == "true"
    assert ran.said["talk differs"] == "true"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sample_shows_chosen_pictures_with_the_next_message(packages: dict[str, Ran], family: str) -> None:
    said = packages[family].said
    assert said["sample pictures"] == "1 0" and said["sample note"] == "pictures: 1 none"
    assert said["sample same"] == said["sample goes on"] == "true"


UNREADABLE, TOO_LARGE, ANIMATED = "unreadable", "tooLarge", "animated"
FAULTS = {
    **dict.fromkeys(("moving.gif", "moving.png", "moving.webp", "pages.tif"), ANIMATED),
    **dict.fromkeys(("deep.png", "deep.tif", "broken.png", "words.txt"), UNREADABLE),
    **dict.fromkeys(("huge.png", "line.png"), TOO_LARGE),
}


def fault(said: str) -> str:
    """What the program says is wrong with an image."""
    found = re.match(r"imageRefused\((\w+\.)*ImageFault\.(\w+), why: ", said)
    assert found, said
    return found[2]


def test_files_have_the_pixels_that_python_reads_and_bad_ones_are_refused_undecoded(packages: dict[str, Ran]) -> None:
    ran = packages[FAMILIES[0]]
    for name in (*READ, "grey.png", "still.webp", "still.tif"):
        image = read_image(ran.files / name)
        wanted = f"{image.width} {image.height} {hashlib.sha256(image.tobytes()).hexdigest()}"
        assert ran.said[f"file {name}"] == ran.said[f"data {name}"] == wanted, name
    assert {name: fault(ran.said[f"file {name}"]) for name in FAULTS} == FAULTS
    assert {name for name in FAULTS if ran.said[f"decoded {name}"] != "0"} == {"broken.png"}
    of_headers = {name: fault(ran.said[f"header {name}"]) for name in FAULTS if ran.said[f"header {name}"] != "()"}
    assert of_headers == {name: kind for name, kind in FAULTS.items() if kind == ANIMATED} | {"deep.png": UNREADABLE}
    assert {ran.said[f"header {name}"] for name in (*READ, "still.webp", "still.tif", "words.txt")} == {"()"}
    assert len({ran.said[f"file turned{each}.png"] for each in range(1, 9)}) == 8


IMAGES = {
    "no pixels": UNREADABLE,
    "few bytes": UNREADABLE,
    "long": TOO_LARGE,
    "absent": UNREADABLE,
}
REFUSED = {
    "many": "imagesTooMany(",
    "misplaced": "imagesMisplaced(",
    "loose": "imagesMisplaced(",
    "assistant": "messageRefused(",
    "odd reply": "messageRefused(",
    "longer": "promptTooLong(",
    "other golden": "outputDiffers(",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_cannot_be_seen_is_a_typed_error(packages: dict[str, Ran], family: str) -> None:
    said = packages[family].said
    assert {name: fault(said[name]) for name in IMAGES} == IMAGES
    assert {name: said[name][: len(start)] for name, start in REFUSED.items()} == REFUSED
    assert said["golden"] == "()" and said["still"] == said["cancelled"] == "true"
    assert re.match(r"\d+ (true|false) <", said["limits"]) and (" true " in said["limits"]) == (family == "paligemma")
    assert str(IMAGE_TOKEN) in said["first prompt"]
