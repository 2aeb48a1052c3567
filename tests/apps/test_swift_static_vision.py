"""Generated Swift packages that see through Core ML, built by SwiftPM on Linux: their calls are those of Python.

A stand-in for Core ML gives, call by call, what the artifact gave to Python's runtime, and keeps its inputs: the tiles
of images, and for every chunk of tokens the rows, what they see, and their positions.
"""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.apps.embed.embed import embed
from edgec.bundle.image_preparation import read_preparation
from edgec.bundle.noncausal_spans import whole_calls
from tests.apps.recorded_calls import Called, read
from tests.apps.swift_builds import Built, build, build_again
from tests.apps.swift_bundles import any_version
from tests.apps.swift_toolchain import WORK, Swift
from tests.apps.vision_app_answers import (
    accepted_labels,
    in_base64,
    known_words,
)
from tests.apps.vision_app_bundles import vision_bundle
from tests.apps.vision_scripts import PICTURES, Script, script_of

# Five exports, and as many builds of a package.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
HERE = Path(__file__).parent
MAIN = HERE / "swift_static_vision" / "main.swift"
BESIDE = (HERE / "swift_vision" / "WordTokenizer.swift", HERE / "swift_replayed" / "Replayed.swift")
# Text around several tiles, positions of three parts, rows that see each other, a prompt that sees all of itself, and
# states that cannot be rewound.
FAMILIES = ("idefics3", "qwen3_vl", "gemma3", "paligemma", "lfm2_vl")
TARGET = "iphone"


@dataclass(frozen=True)
class Ran:
    """What a package did, and what it had to do."""

    script: Script
    told: dict[str, Any]

    @property
    def calls(self) -> list[Called]:
        """The calls of the artifact's functions."""
        return [read(call) for call in self.told["calls"]]

    @property
    def level(self) -> float:
        """A grey level of an image, as the largest of the three colours has it."""
        described = read_preparation(self.script.bundle)
        assert described is not None and described.preparation is not None
        levels = described.preparation.levels
        return levels.scale / min(levels.std)


REACHES = 40


def reaches(chunk: int) -> list[list[int]]:
    """Texts of random runs that see themselves, some of them longer than a call."""
    pick, made = random.Random(0), []
    for _ in range(REACHES):
        span_end: list[int] = []
        while len(span_end) < 3 * chunk:
            size = pick.choice([1, 1, 2, chunk // 3, chunk - 1, chunk, chunk + 1 if pick.random() < 0.2 else 1])
            span_end += [len(span_end) + size - 1] * size
        made.append(span_end)
    return made


@pytest.fixture(scope="module")
def packages(swift: Swift) -> dict[str, Ran]:
    """The package of each family: all have one name and one C++ target, so that only the Swift is built again."""
    folder = swift.work / "static_vision"
    folder.mkdir()
    scripts = {family: script_of(vision_bundle(family, TARGET, format="mlpackage")) for family in FAMILIES}
    modules = {embed(each.bundle, "ios", folder / family).package.module for family, each in scripts.items()}
    (module,) = modules
    assert len({(folder / family / "Package.swift").read_text() for family in FAMILIES}) == 1
    ran = {}
    for family, script in scripts.items():
        built = _built(swift, folder, family, module)
        ran[family] = Ran(script, _told(built, script, folder / f"{family}.own"))
    return ran


def _built(swift: Swift, folder: Path, family: str, module: str) -> Built:
    """The program over a family's package."""
    any_version(folder / family / "Sources" / module)
    if not (folder / "kit").exists():
        shutil.copytree(folder / family, folder / "kit")
        return build(swift, folder, module, MAIN.read_text().replace("KIT", module), BESIDE, engine=False)
    there = folder / "kit" / "Sources" / module
    shutil.rmtree(there)
    shutil.copytree(folder / family / "Sources" / module, there, copy_function=shutil.copy)
    return build_again(swift, folder)


def _told(built: Built, script: Script, own: Path) -> dict[str, Any]:
    shutil.copytree(script.bundle, own / "bundle")
    seen = "/".join((WORK, "static_vision", own.name))
    asked = {
        "bundle": f"{seen}/bundle",
        "accepted": accepted_labels(script.bundle),
        "words": known_words(script.bundle),
        "pictures": [{"width": each.width, "height": each.height, "rgb": in_base64(each)} for each in PICTURES],
        "steps": [step.to_json() for step in script.steps],
        "answers": [call.answer() for call in script.calls],
        "reaches": reaches(script.recording.chunk),
    }
    (own / "asked.json").write_text(json.dumps(asked))
    line = ["env", f"HOME={seen}", "timeout", "300", built.program, f"{seen}/asked.json", f"{seen}/told.json"]
    done = built.swift.run(line)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    told: dict[str, Any] = json.loads((own / "told.json").read_text())
    return told


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_and_answers_are_those_of_python(packages: dict[str, Ran], family: str) -> None:
    ran = packages[family]
    right = [step for step in ran.script.steps if not step.wrong]
    assert {step.name: ran.told["prompts"].get(step.name) for step in right} == {
        step.name: step.prompt.tokens for step in right
    }
    assert ran.told["tokens"] == {step.name: step.tokens for step in right if not step.cancelled}
    assert ran.told["cancelled"] == {step.name: True for step in right if step.cancelled}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_cannot_be_seen_is_a_typed_error(packages: dict[str, Ran], family: str) -> None:
    ran = packages[family]
    wrong = {step.name: step.wrong for step in ran.script.steps if step.wrong}
    assert {name: said[: len(wrong.get(name, ""))] for name, said in ran.told["refused"].items()} == wrong
    # Nothing of Python's calls is left that the app should have made.
    assert ran.told["left"] == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_every_call_is_pythons(packages: dict[str, Ran], family: str) -> None:
    ran = packages[family]
    assert [call.function for call in ran.calls] == [call.function for call in ran.script.calls]
    for place, (own, wanted) in enumerate(zip(ran.calls, ran.script.calls, strict=True)):
        assert set(own.inputs) == set(wanted.inputs), place
        # A grey level of each tile; all else exactly, rows of images among it.
        level = ran.level if own.function == "vision_encoder" else 0
        for name, value in wanted.inputs.items():
            assert own.inputs[name].shape == value.shape and own.inputs[name].dtype == value.dtype, (place, name)
            np.testing.assert_allclose(own.inputs[name], value, rtol=0, atol=level, err_msg=f"{place} {name}")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_decoder_alone_is_given_the_state(packages: dict[str, Ran], family: str) -> None:
    assert all(call.state == (call.function != "vision_encoder") for call in packages[family].calls)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_calls_have_what_the_family_differs_in(packages: dict[str, Ran], family: str) -> None:
    """That the cases are there: rows in chunks and across them, tokens that see ahead, positions of three parts."""
    ran = packages[family]
    chunk, info = ran.script.recording.chunk, ran.script.info
    assert {call.function for call in ran.calls} == {"vision_encoder", "prefill", "decode"}
    prefills = [call.inputs for call in ran.calls if call.function == "prefill"]
    seen = [np.flatnonzero(inputs["embeds_mask"]) for inputs in prefills]
    assert any(0 < len(rows) < chunk for rows in seen)
    if info.ahead == "none":
        assert any(chunk - 1 in rows for rows in seen) and any(0 in rows for rows in seen)
    ahead = [
        np.any(inputs["span_end"] > inputs["start"] + np.arange(chunk)) for inputs in prefills if "span_end" in inputs
    ]
    assert any(ahead) == (info.ahead != "none")
    parts = [inputs["mrope_positions"] for inputs in prefills if "mrope_positions" in inputs]
    assert any(np.any(each[0] != each[1]) for each in parts) == (info.grid is not None)


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_end_where_nothing_sees_beyond(packages: dict[str, Ran], family: str) -> None:
    ran = packages[family]
    chunk = ran.script.recording.chunk
    wanted = []
    for span_end in reaches(chunk):
        sizes = whole_calls(np.array(span_end), 0, chunk)
        beyond = next((place for place, size in enumerate(sizes) if size > chunk), None)
        wanted.append(sizes if beyond is None else [*sizes[:beyond], 0])
    assert ran.told["sizes"] == wanted and any(0 in sizes for sizes in wanted)
