"""The package's model behind Foundation Models' protocols: transcripts in, text and usage out, as a session asks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from edgec.bundle.folder import open_bundle
from edgec.devices.embed import app_facts
from edgec.devices.embed.swift_package import swift_package
from edgec.devices.embed.written_package import AppPackage, write_package
from tests.devices.embed import swift_cases as python
from tests.devices.embed.ios_bundles import bundle_of, decoder_manifest, target
from tests.devices.embed.swift_bundles import LIMITS, for_linux, write_good
from tests.devices.embed.swift_toolchain import Swift

HERE = Path(__file__).parent
SKIPPED = "#if compiler(>=6.4) && canImport(FoundationModels)"
NEW = 12


def talking_package(folder: Path) -> AppPackage:
    """The package of a model with a chat template."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_facts, "load_target", target)
        return swift_package(open_bundle(write_good(folder / "bundle", "dynamic")))


def test_compilers_without_the_protocols_skip_the_file(tmp_path: Path) -> None:
    package = talking_package(tmp_path)
    source, guide = package.files[f"Sources/{package.module}/FoundationModel.swift"], package.files["README.md"]
    assert isinstance(source, bytes) and isinstance(guide, bytes) and b"LanguageModelSession" in guide
    lines = source.decode().splitlines()
    first = next(line for line in lines if line and not line.startswith("//"))
    assert first == SKIPPED and lines[-1] == "#endif"


def test_a_model_without_a_chat_template_has_no_such_file(tmp_path: Path) -> None:
    package = swift_package(bundle_of(decoder_manifest("pte-cpu"), tmp_path))
    guide = package.files["README.md"]
    assert isinstance(guide, bytes) and b"Foundation Models" not in guide
    assert f"Sources/{package.module}/FoundationModel.swift" not in package.files


@pytest.fixture(scope="module")
def heard(swift: Swift) -> dict[str, Any]:
    """What came of each request."""
    work = swift.work / "foundation"
    work.mkdir()
    package = talking_package(work)
    write_package(package, work / "kit")
    kit = work / "kit" / "Sources" / package.module
    for_linux(kit)
    source = kit / "FoundationModel.swift"
    text = source.read_text()
    assert SKIPPED in text
    source.write_text(text.replace(SKIPPED, "#if canImport(FoundationModels)"))
    replies = kit / "ReplyFacts.swift"
    marks = 'static let thinking: ThinkingNotation? = ThinkingNotation(open: "<t>", close: "</t>", closeTokens: [])'
    given, count = re.subn(r"static let thinking: ThinkingNotation\? = nil", marks, replies.read_text())
    assert count == 1
    replies.write_text(given)
    assert swift.compile(package.module, sorted(kit.glob("*.swift"))) == ""
    driver = work / "driver"
    driver.mkdir()
    scripted = (HERE / "swift_behaviour" / "ScriptedModel.swift").read_text()
    (driver / "ScriptedModel.swift").write_text(f"import {package.module}\n{scripted}")
    main = (HERE / "swift_foundation" / "Main.swift").read_text()
    (driver / "Main.swift").write_text(re.sub(r"\bKIT\b", package.module, main))
    assert swift.compile("Driver", sorted(driver.glob("*.swift"))) == ""
    stand_ins = ("ExecuTorch", "CryptoKit", "os", "Tokenizers", "Hub", "Darwin", "FoundationModels")
    names = ("Driver", package.module, *stand_ins)
    lenient = ["-Xlinker", "--unresolved-symbols=ignore-in-shared-libs"]
    found: dict[str, Any] = swift.wrote("foundation", names, "heard.json", 120, *lenient)
    return found


def answer(*turns: tuple[str, str], new: int = NEW) -> str:
    """What the Python runtime answers to a conversation, which begins with the bundle's system prompt or its own."""
    own = turns[0][0] == "system"
    prompt = python.chat(*turns) if own else python.chat(("system", python.SYSTEM), *turns)
    tokens, _ = python.answer({"tokens": prompt, "maxNewTokens": new}, LIMITS)
    return python.decode([int(token) for token in tokens])


@pytest.mark.slow
def test_a_transcript_is_answered_as_a_conversation(heard: dict[str, Any]) -> None:
    first = answer(("system", "Be kind."), ("user", "Hi"))
    assert heard["first"]["text"] == first and len(heard["first"]["entries"]) == 1
    # Reasoning is not read again; segments are lines.
    turns = (("system", "Be kind."), ("user", "Hi"), ("assistant", first), ("user", "So\nAnd"))
    assert heard["second"]["text"] == answer(*turns)
    assert heard["structure"]["text"] == answer(("user", '{"a": 1}'))


@pytest.mark.slow
def test_reasoning_has_an_entry_of_its_own(heard: dict[str, Any]) -> None:
    thinking = heard["thinking"]
    assert (thinking["thoughts"], thinking["text"]) == ("Hm, so.", "Yes.") and len(thinking["entries"]) == 2
    # A token for each byte.
    assert thinking["usage"][2:] == [len("<t>Hm, so.</t>Yes.") + 1, len("Hm, so.")]


@pytest.mark.slow
def test_usage_tells_what_the_cache_held(heard: dict[str, Any]) -> None:
    prompt, cached, new, reasoning = heard["first"]["usage"]
    assert prompt == len(python.chat(("system", "Be kind."), ("user", "Hi"))) and (new, reasoning) == (NEW, 0)
    assert 0 <= cached < prompt
    assert heard["second"]["usage"][1] > 0


@pytest.mark.slow
def test_options_of_a_request_hold_before_the_models(heard: dict[str, Any]) -> None:
    assert heard["short"]["text"] == answer(("user", "Hi"), new=3)
    assert heard["drawn"]["text"] == heard["drawn again"]["text"] != answer(("user", "Hi"))


@pytest.mark.slow
def test_faults_are_the_frameworks_own_where_it_has_them(heard: dict[str, Any]) -> None:
    context, tokens = map(int, heard["long"]["error"].removeprefix("context ").split())
    assert context == LIMITS.context < tokens
    assert heard["image"]["error"] == "the model reads text alone" and not heard["image"]["entries"]
    assert "tools" in heard["tool"]["error"]


@pytest.mark.slow
def test_an_executor_belongs_to_a_loaded_model(heard: dict[str, Any]) -> None:
    # Without a schema of the bundle there is no guided generation.
    assert heard["configuration"]["text"] == "true false true"
