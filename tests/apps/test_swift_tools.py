"""Calls that edgec's engine holds to their tools in the generated Swift: Python's greedy replies, in every notation."""

from __future__ import annotations

import json
import re
import shutil
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.apps.embed.constrained_calls import FOLDER
from edgec.apps.embed.reply_values import reply_values
from edgec.bundle.folder import open_bundle
from edgec.bundle.golden import read_golden
from edgec.engine.compile.build import build_runner
from edgec.exporter.apps import embed
from edgec.runtime_py.model import Model
from tests.apps.schema_answers import schema_option, token_pieces
from tests.apps.swift_bundles import for_linux
from tests.apps.swift_toolchain import WORK, Swift
from tests.apps.tool_answers import NAMES, TOOLS, Spoken, assert_held, source_with_marks, spoken

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
# static let switches: [String] = facts.switches
_PROPERTY = re.compile(r"^    static let (\w+: [^=\n]+) = (facts\.\w+)$", re.MULTILINE)
_STAND_INS = ("ExecuTorch", "CryptoKit", "os", "Tokenizers", "Hub", "Darwin")


def facts_of_all(source: str) -> str:
    """`ReplyFacts` with the facts of several notations, of which the test chooses one after the other."""
    there = 'private static let facts: ReplyPart = FactsFile.part("replies")'
    assert there in source
    whole = source.replace(
        there, "private static var facts: ReplyPart { NotationUnderTest.all[NotationUnderTest.place] }"
    )
    given, count = _PROPERTY.subn(r"    static var \1 { \2 }", whole)
    assert count > 10
    return (
        given
        + """
enum NotationUnderTest {
    nonisolated(unsafe) static var place = 0
    static let all: [ReplyPart] = try! FactsFile.part(
        "all", of: try! Data(contentsOf: URL(fileURLWithPath: "notations.json")))
}
"""
    )


def over_the_library(kit: Path, module: str) -> Path:
    """Let a package call the engine that Python calls, by its own names; returns the folder of its C module."""
    for name in ("EngineCall", "EngineSchema", "RuntimeEngine"):
        path = kit / "Sources" / module / f"{name}.swift"
        path.write_text(path.read_text().replace(f"{module}_", "edgec_"))
    header = kit / "Sources" / f"{module}Engine" / "include" / f"{module}Engine.h"
    header.write_text(re.sub(r"^#define edgec_\w+ \w+$", "", header.read_text(), flags=re.MULTILINE))
    return header.parent


def prompts(model: Model, notations: Sequence[Spoken]) -> dict[str, list[int]]:
    """The prompts of all steps as tokens, by their texts."""
    made = {}
    for notation in notations:
        for step in notation.steps:
            facts = notation.facts
            pieces = (facts.plain if step["choice"] == "none" or step["schema"] else facts.with_tools)[
                0 if step["budget"] is None else 1 if step["budget"] else 2
            ]
            assert pieces is not None
            text = pieces.render([("user", step["text"])])
            made[text] = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    return made


@pytest.fixture(scope="module")
def all_said(swift: Swift, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Spoken], dict[str, Any]]:
    """What Python and the package say in each notation, and what it refuses."""
    own, work = tmp_path_factory.mktemp("tools"), swift.work / "tools"
    work.mkdir()
    source = source_with_marks(own / "source")
    schemas = schema_option(own)
    bundle = edgec.export(source, target="iphone-16-pro-cpu", out=work / "tiny.edgec", schemas=schemas)
    module = embed(bundle, "ios", work / "kit", tools=[tool.definition for tool in TOOLS]).package.module
    notations = [spoken(bundle, name, own) for name in NAMES]
    assert {path.name: path.read_bytes() for path in (work / "kit").rglob(f"{FOLDER}/*")} == notations[0].held.files
    for place, notation in enumerate(notations):
        (work / f"calls/{place}").mkdir(parents=True)
        for name, content in notation.held.files.items():
            (work / f"calls/{place}/{name}").write_bytes(content)
    kit = work / "kit" / "Sources" / module
    for_linux(kit)
    (kit / "ReplyFacts.swift").write_text(facts_of_all((kit / "ReplyFacts.swift").read_text()))
    values = [reply_values(replace(notation.facts, held=notation.held)) for notation in notations]
    (work / "notations.json").write_text(json.dumps({"all": values}))
    _resources_in_a_folder(kit)
    headers = over_the_library(work / "kit", module)
    shutil.copy(HERE / "swift_tools" / "Main.swift", work)
    assert swift.compile(module, [*sorted(kit.glob("*.swift")), work / "Main.swift"], [headers]) == ""
    (work / "asked.json").write_text(json.dumps(_asked(bundle, notations)))
    found = swift.wrote("tools", (module, *_STAND_INS), "told.json", 300, *_libraries(work))
    return notations, found


def _resources_in_a_folder(kit: Path) -> None:
    """Read resources of the notation under test from the working folder: only SwiftPM makes ``Bundle.module``."""
    path = kit / "ConstrainedCalls.swift"
    there = 'static let folder: URL? = Bundle.module.url(forResource: "calls", withExtension: nil)'
    here = 'static var folder: URL? { URL(fileURLWithPath: "calls/\\(NotationUnderTest.place)") }'
    assert there in path.read_text()
    path.write_text(path.read_text().replace(there, here))


def _asked(bundle: Path, notations: Sequence[Spoken]) -> dict[str, Any]:
    opened, model = open_bundle(bundle), edgec.load(bundle)
    assert opened.golden_path is not None
    special = {int(index): token.content for index, token in model.tokenizer.added_tokens_decoder.items()}
    pieces = [special.get(index, "").encode() or piece for index, piece in enumerate(token_pieces(bundle))]
    golden = read_golden(opened.golden_path)
    return {
        "bundle": f"{WORK}/tools/{bundle.name}",
        "accepted": [*(vector.label for vector in golden.texts), "chat"],
        "texts": prompts(model, notations),
        "special": sorted(special),
        "pieces": [b64encode(piece).decode() for piece in pieces],
        "notations": [notation.steps for notation in notations],
    }


def _libraries(work: Path) -> list[str]:
    """The linker's options for the engine's library and those that it needs."""
    spec = find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations
    shutil.copytree(Path(next(iter(spec.submodule_search_locations))) / "lib", work / "lib")
    shutil.copy(build_runner().library, work / "lib")
    names = [path.stem.removeprefix("lib") for path in (work / "lib").glob("libexecutorch*.so")]
    folder = f"{WORK}/tools/lib"
    options = [
        "--no-as-needed",
        "--allow-shlib-undefined",
        "-rpath",
        folder,
        "--unresolved-symbols=ignore-in-shared-libs",
    ]
    return [
        f"-L{folder}",
        *(word for option in options for word in ("-Xlinker", option)),
        "-ledgec",
        *(f"-l{name}" for name in names),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_greedy_replies_are_those_of_python(all_said: tuple[list[Spoken], dict[str, Any]], name: str) -> None:
    notations, found = all_said
    place = NAMES.index(name)
    said = [
        {**each, "calls": [[call["name"], json.loads(call["arguments"])] for call in each["calls"]]}
        for each in found["said"][place]
    ]
    assert_held(notations[place], said)


def test_what_cannot_be_held_is_refused(all_said: tuple[list[Spoken], dict[str, Any]]) -> None:
    refused = all_said[1]["refused"]
    assert refused["unknown tool"].startswith("toolChoiceRefused(") and "tool absent" in refused["unknown tool"]
    assert refused["no tools"].startswith("toolChoiceRefused(") and "sees no tools" in refused["no tools"]
    assert refused["tools and a schema"].startswith("schemaRefused(")
    assert refused["stop texts"].startswith("schemaRefused(")
    assert refused["changed"].startswith("bundleAltered(") and "sha256" in refused["changed"]
