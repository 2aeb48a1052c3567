"""The package's model behind Foundation Models' protocols: transcripts in, text and usage out, as a session asks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed import app_facts
from edgec.apps.embed.prompt_pieces import PromptPieces
from edgec.apps.embed.reply_values import call_values, prompt_values, tool_values
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import AppPackage, write_package
from edgec.bundle.folder import open_bundle
from edgec.bundle.notations import CALL_FORMS
from edgec.bundle.tools import tools_of
from tests.apps import swift_bundles
from tests.apps import swift_cases as python
from tests.apps.ios_bundles import bundle_of, decoder_manifest, target
from tests.apps.swift_bundles import for_linux, write_good
from tests.apps.swift_toolchain import Swift
from tests.runtime_py.messages.talk import NOW, WEATHER

HERE = Path(__file__).parent
SKIPPED = "#if compiler(>=6.4) && canImport(FoundationModels)"
NEW = 12
LIMITS = swift_bundles.LIMITS.model_copy(update={"context": 256})
HERMES = next(form for form in CALL_FORMS if form.name == "hermes")
TOOLS = tools_of([WEATHER, NOW])
_JOINS = {
    ("start", "system"): "[tools]<system>",
    ("system", "user"): "\n<user>",
    ("user", "answer"): "\n<assistant>",
    ("user", "call"): "\n<assistant>",
    ("call", "tool"): "\n<tool>",
    ("tool", "answer"): "\n<assistant>",
}
PIECES = PromptPieces(_JOINS, frozenset())


def talking_package(folder: Path) -> AppPackage:
    """The package of a model with a chat template."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_facts, "load_target", target)
        patch.setattr(swift_bundles, "LIMITS", LIMITS)
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
    facts = kit / "Resources" / "facts.json"
    known = json.loads(facts.read_text())
    known["replies"] |= {
        "thinking": {"open": "<t>", "close": "</t>", "openTokens": [], "closeTokens": []},
        "calls": call_values(HERMES),
        "withTools": [prompt_values(PIECES), None, None],
        "tools": tool_values(TOOLS),
    }
    facts.write_text(json.dumps(known))
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
    assert heard["restored calls"]["error"] == "these calls were not written by this model since the app began"


@pytest.mark.slow
def test_calls_go_to_the_session_and_their_results_come_back(heard: dict[str, Any]) -> None:
    called = heard["called"]
    (call,) = called["calls"]
    assert call[0] == "weather" and json.loads(call[1]) == {"city": "Oslo", "days": 3}
    assert called["text"] == "Let me see." and len(called["entries"]) == 2
    # The script answers to the exact prompt: the call as the model wrote it, and the result behind it.
    assert heard["result"]["text"] == "It rains." and not heard["result"]["calls"]
    assert heard["disallowed"]["text"] and not heard["disallowed"]["calls"]


@pytest.mark.slow
def test_tools_that_are_not_the_packages_are_refused(heard: dict[str, Any]) -> None:
    fixed = 'the tools of this package are ["now", "weather"]'
    assert heard["other tool"]["error"].startswith(fixed) and 'differ by ["other"]' in heard["other tool"]["error"]
    assert 'differ by ["now"]' in heard["one tool"]["error"]
    assert "not both" in heard["tools and schema"]["error"]
    # The artifact has another runtime than edgec's engine here.
    assert "has another runtime" in heard["required"]["error"]


@pytest.mark.slow
def test_an_executor_belongs_to_a_loaded_model(heard: dict[str, Any]) -> None:
    # Without a schema of the bundle there is no guided generation.
    assert heard["configuration"]["text"] == "true false true true"
