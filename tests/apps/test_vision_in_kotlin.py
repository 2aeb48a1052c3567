"""The generated Kotlin of models that see, over the real engine in a Java machine: Python's prompts and tokens."""

from __future__ import annotations

import hashlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import edgec
from edgec.apps.embed.embed import embed
from edgec.bundle.chat_template import render_parts
from edgec.bundle.image_preparation import read_preparation
from edgec.runtime_py.media.image_file import read_image
from edgec.runtime_py.vision_language.processor import Prompt
from tests.apps.android_engine import build, lacking
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled
from tests.apps.vision_app_answers import (
    FAMILIES,
    MOST,
    QUESTION,
    READ,
    assert_greedy,
    assert_text,
    numbers,
    turn,
    written_files,
)
from tests.apps.vision_app_bundles import vision_bundle
from tests.vision_language import picture
from tests.vision_words import IMAGE_TOKEN

pytestmark = [
    pytest.mark.slow,
    WITH_KOTLIN,
    pytest.mark.skipif(lacking(arm=False) is not None, reason=str(lacking(arm=False))),
]
_RUNTIMES = ("ExecuTorch.kt", "OnnxRuntime.kt")


@dataclass(frozen=True)
class Ran:
    """What an app printed, the bundle that it was made of, and its two pictures."""

    family: str
    bundle: Path
    pictures: tuple[Path, Path]
    files: Path
    said: dict[str, str]

    @property
    def mark(self) -> str:
        """What stands in a text for an image."""
        described = read_preparation(self.bundle)
        assert described is not None and described.preparation is not None
        return described.preparation.texts.placeholder


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """The app of each family, run over one library: all bundles have one name, and their projects are equal."""
    folder = tmp_path_factory.mktemp("vision")
    bundles = {family: vision_bundle(family) for family in FAMILIES}
    for family, bundle in bundles.items():
        package = embed(bundle, "android", folder / family / "kit").package
    assert len({_project(folder / family / "kit") for family in FAMILIES}) == 1
    module = package.module
    engine = build(folder / FAMILIES[0] / "kit", f"edgec_{module.rpartition('.')[2]}", arm=False)
    pictures = folder / "a.png", folder / "b.png"
    picture(50, 40).save(pictures[0])
    picture(30, 90, seed=1).save(pictures[1])
    files = written_files(folder / "files")
    ran = {}
    for family, bundle in bundles.items():
        line = ["java", "-Xcheck:jni", f"-Djava.library.path={engine.folder}", "-cp", _classes(folder / family, module)]
        (folder / family / "own").mkdir()
        words = [f"{module}.MainKt", *map(str, (bundle, folder / family / "own", *pictures, files))]
        done = subprocess.run([*line, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        assert "WARNING in native method" not in done.stdout + done.stderr
        said = dict(row.split("=", 1) for row in done.stdout.splitlines())
        ran[family] = Ran(family, bundle, pictures, files, said)
    return ran


def _project(kit: Path) -> str:
    """The CMake project without the operators, which a build over ExecuTorch's package has all."""
    text = (kit / "model/src/main/cpp/values.cmake").read_text()
    before, _, rest = text.partition("set(EDGEC_ROOT_OPERATORS\n")
    return before + rest.partition(")\n")[2]


def _classes(folder: Path, module: str) -> str:
    main = folder / "Main.kt"
    main.write_text((STAND_INS / "VisionMain.kt.txt").read_text().replace("PACKAGE", module))
    stand_ins = [path for path in sorted(STAND_INS.glob("*.kt")) if path.name not in _RUNTIMES]
    sample = [path for name in ("ChatModel", "Pictures") for path in (folder / "kit/sample").rglob(f"{name}.kt")]
    return compiled([*stand_ins, *sorted((folder / "kit/model").rglob("*.kt")), *sample, main], folder / "classes")


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_and_answers_are_those_of_python(apps: dict[str, Ran], family: str) -> None:
    ran = apps[family]
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
def test_text_alone_after_an_image_is_as_before_it(apps: dict[str, Ran], family: str) -> None:
    ran = apps[family]
    if family == "paligemma":
        assert ran.said["text"].startswith("ImageNeeded: ")
        return
    assert_greedy(ran.bundle, Prompt([8, 9, 10, 11, 12], np.zeros((0, 3, 1, 1), np.float32)), numbers(ran.said["text"]))


@pytest.mark.parametrize("family", FAMILIES)
def test_conversations_are_those_of_the_template(apps: dict[str, Ran], family: str) -> None:
    ran = apps[family]
    model, (first, second) = edgec.load(ran.bundle), ran.pictures
    prompt = model.encode_images(QUESTION, [first], template=True)
    assert ran.said["chat prompt"] == str(prompt.tokens) and ran.said["reply"] == "true"
    assert_greedy(ran.bundle, prompt, numbers(ran.said["chat tokens"]))
    talk = [turn("user", QUESTION, 1), turn("assistant", "a house"), turn("user", "with two doors")]
    shown = [*talk, turn("assistant", "and here"), turn("user", "is this", 1)]
    for name, messages, images in (("talk", talk, [first]), ("shown", shown, [first, second])):
        rendered = render_parts(model.tokenizer, messages)
        made = model._processor.prompt(rendered, [read_image(image) for image in images], rendered=True)
        assert ran.said[f"{name} prompt"] == str(made.tokens) and ran.said[f"{name} same"] == "true"
    assert ran.said["talk differs"] == "true"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sample_shows_chosen_pictures_with_the_next_message(apps: dict[str, Ran], family: str) -> None:
    said = apps[family].said
    assert said["sample pictures"] == "1 0 1 0" and said["sample note"] == "pictures: 1 null"
    assert said["sample same"] == said["sample goes on"] == "true"


FAULTS = {
    "moving.gif": "ImageAnimated: ",
    "moving.png": "ImageAnimated: ",
    "moving.webp": "ImageUnreadable: ",
    "deep.png": "ImageUnreadable: ",
    "broken.png": "ImageUnreadable: ",
    "words.txt": "ImageUnreadable: ",
    "huge.png": "ImageTooLarge: ",
    "line.png": "ImageTooLarge: ",
}


def test_files_have_the_pixels_that_python_reads_and_bad_ones_are_refused_undecoded(apps: dict[str, Ran]) -> None:
    ran = apps["idefics3"]
    for name in READ:
        image = read_image(ran.files / name)
        wanted = f"{image.width} {image.height} {hashlib.sha256(image.tobytes()).hexdigest()}"
        assert ran.said[f"file {name}"] == wanted, name
    for name, fault in FAULTS.items():
        assert ran.said[f"file {name}"].startswith(fault), name
    assert {name for name in FAULTS if ran.said[f"decoded {name}"] != "0"} <= {"broken.png"}
    # Java's own images know no WebP, so its header is read by itself.
    assert ran.said["header moving.webp"].startswith("ImageAnimated: ")
    assert {ran.said[f"header {name}"] for name in (*READ, "still.webp", "words.txt")} == {"kotlin.Unit"}
    assert len({ran.said[f"file turned{each}.png"] for each in range(1, 9)}) == 8


REFUSED = {
    "no pixels": "ImageUnreadable: ",
    "few bytes": "ImageUnreadable: ",
    "long": "ImageTooLarge: ",
    "absent": "ImageUnreadable: ",
    "gone": "ImageUnreadable: ",
    "many": "ImagesTooMany: ",
    "misplaced": "ImagesMisplaced: ",
    "loose": "ImagesMisplaced: ",
    "assistant": "MessageRefused: ",
    "longer": "PromptTooLong: ",
    "other golden": "OutputDiffers: ",
    "closed": "EngineFailed: edgec's engine failed: the model is closed.",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_cannot_be_seen_is_a_typed_exception(apps: dict[str, Ran], family: str) -> None:
    said = apps[family].said
    assert {name: said[name][: len(start)] for name, start in REFUSED.items()} == REFUSED
    assert said["golden"] == "kotlin.Unit" and said["still"] == said["cancelled"] == "true"
    assert re.match(r"\d+ (true|false) <", said["limits"]) and (" true " in said["limits"]) == (family == "paligemma")
    assert str(IMAGE_TOKEN) in said["first prompt"]
