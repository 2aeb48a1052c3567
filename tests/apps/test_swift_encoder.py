"""The generated Swift of a sentence encoder compiles in language mode 6, and reads texts as the runtime in Python does.

swift-transformers and the artifact are stand-ins here: a list of ids that the tokenizers library gave, and a rule.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed import app_facts
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import write_package
from edgec.bundle import golden_texts
from edgec.bundle.sentence_prompts import SentencePrompts
from tests.apps.encoder_bundles import (
    PROMPTS,
    TEXTS,
    WIDTH,
    encoder_method,
    placeholder_bundle,
    rule,
    tokenizer,
)
from tests.apps.ios_bundles import FORMATS, target
from tests.apps.swift_bundles import for_linux
from tests.apps.swift_toolchain import Swift
from tests.exporter.tiny_sentence_encoder import POSITIONS

pytestmark = pytest.mark.slow

# Any number of the prompt's tokens.
UNPOOLED = 5
DRIVER = Path(__file__).parent / "swift_encoder"
# A .pte of edgec's varies in length; one with a Core ML delegate is padded, and cuts beginnings here.
CASES = {"pte-cpu": (encoder_method(padded=False), "right"), "pte": (encoder_method(True, "int32"), "left")}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_kit_compiles_without_a_word(kind: str, swift: Swift, swift_folder: Path) -> None:
    method = encoder_method(padded=kind != "pte-cpu", dtype="int64" if kind == "pte-cpu" else "int32")
    package = swift_package(placeholder_bundle(swift_folder / "bundle", kind, method))
    write_package(package, swift_folder / "kit")
    assert not (swift_folder / "kit" / "Bench").exists()
    sources = sorted((swift_folder / "kit" / "Sources" / package.module).glob("*.swift"))
    assert swift.compile(package.module, sources) == ""


def _ids(kind: str) -> dict[str, list[int]]:
    read = tokenizer(CASES[kind][1])
    prompted = PROMPTS["query"] + "a"
    return {text: read(text)["input_ids"] for text in (*TEXTS, prompted, *(text for _, text in golden_texts.TEXTS))}


@pytest.fixture(scope="module", params=CASES)
def said(swift: Swift, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the compiled kit does with the texts."""
    kind, (method, side) = request.param, CASES[request.param]
    work = swift.work / f"encoder_{kind.replace('-', '_')}"
    prompts = SentencePrompts(prompts=PROMPTS, unpooled={"query": UNPOOLED})
    bundle = placeholder_bundle(work / "bundle", kind, method, prompts=prompts, truncation_side=side)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_facts, "load_target", target)
        package = swift_package(bundle)
    write_package(package, work / "kit")
    sources = work / "kit" / "Sources" / package.module
    for_linux(sources)
    shutil.copytree(DRIVER, work / "driver")
    told = swift.compile(package.module, [*sources.glob("*.swift"), *(work / "driver").glob("*.swift")])
    assert told == ""
    label, odd = golden_texts.TEXTS[0]
    cases = {"ids": _ids(kind), "texts": TEXTS, "odd": odd, "oddLabel": label}
    (work / "cases.json").write_text(json.dumps(cases))
    return {**_run(swift, package.module, work), "kind": kind}


def _run(swift: Swift, module: str, work: Path) -> dict[str, Any]:
    names = (module, "ExecuTorch", "CryptoKit", "os", "Tokenizers", "Hub", "Darwin")
    facts: dict[str, Any] = swift.wrote(work.name, names, "facts.json", 300)
    return facts


def _call(kind: str, text: str, unpooled: int = 0) -> list[list[int]]:
    """The ids and the mask that Python's runtime would call the artifact with."""
    side = CASES[kind][1]
    ids = tokenizer(side)(text, truncation=True, max_length=POSITIONS)["input_ids"]
    spare = POSITIONS - len(ids) if kind == "pte" else 0
    return [[*ids, *[0] * spare], [2] * unpooled + [1] * (len(ids) - unpooled) + [0] * spare]


def test_tokens_cuts_padding_and_mask_are_pythons(said: dict[str, Any]) -> None:
    whole = [count <= POSITIONS for count in said["counts"]]
    assert said["counts"] == [len(ids) for ids in map(_ids(said["kind"]).get, TEXTS) if ids is not None]
    assert whole == [True] * 8 + [False] * 2
    calls = [_call(said["kind"], text) for text, once in zip(TEXTS, whole, strict=True) for _ in range(1 + once)]
    assert said["calls"] == calls


def test_vectors_are_the_artifacts(said: dict[str, Any]) -> None:
    for text, count, whole, cut in zip(TEXTS, said["counts"], said["whole"], said["cut"], strict=True):
        vector = [float(number) for number in cut.split()]
        # Float32 written and read again.
        assert vector == pytest.approx(rule(*_call(said["kind"], text)), rel=1e-6) and len(vector) == WIDTH
        refused = f"textTooLong(tokens: {count}, most: {POSITIONS})"
        assert whole == (refused if count > POSITIONS else cut)
    assert said["together"] == " ".join(said["cut"])
    assert said["oneTooLong"].startswith("textTooLong(")


def test_prompts_go_before_texts(said: dict[str, Any]) -> None:
    calls = [_call(said["kind"], PROMPTS["query"] + "a", UNPOOLED), _call(said["kind"], "a")]
    assert said["promptCalls"] == calls
    for made, call in zip((said["prompted"], said["unprompted"]), calls, strict=True):
        assert [float(number) for number in made.split()] == pytest.approx(rule(*call), rel=1e-6)
    assert said["unknown"] == 'promptUnknown("other")'


def test_the_first_start_compares_ids_and_a_vector(said: dict[str, Any]) -> None:
    label = golden_texts.TEXTS[0][0]
    assert said["loads"]["odd text"] == f'tokenizerDiffers(labels: ["{label}"])'
    assert said["loads"]["odd text, accepted"] == "loaded"
    assert said["loads"]["other model"].startswith("outputDiffers(")
