"""Replies in the generated Swift: reasoning, answers and calls told apart as Python does, budgets kept exactly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed import app_facts
from edgec.apps.embed.reply_facts import reply_facts
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import write_package
from edgec.bundle.folder import open_bundle
from tests.apps import reply_cases as python
from tests.apps import reply_talks, swift_bundles, swift_cases
from tests.apps.ios_bundles import target
from tests.apps.kotlin_bundles import byte_tokenizer_files
from tests.apps.swift_toolchain import Swift

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def said(swift: Swift) -> dict[str, Any]:
    """What the Swift reads, holds and answers, with the notations of a template that another tokenizer has."""
    work = swift.work / "replies"
    work.mkdir()
    words = work / "tokenizer"
    words.mkdir()
    for name, content in byte_tokenizer_files(reply_talks.TEMPLATE).items():
        (words / name).write_bytes(content)
    facts = reply_facts(words, reply_talks.TOOLS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_facts, "load_target", target)
        patch.setattr(app_facts, "reply_facts", lambda folder, tools, image: facts)
        patch.setattr(swift_bundles, "LIMITS", swift_bundles.LIMITS.model_copy(update={"context": reply_talks.CONTEXT}))
        package = swift_package(open_bundle(swift_bundles.write_good(work / "bundle", "dynamic")))
    write_package(package, work / "kit")
    sources = work / "kit" / "Sources" / package.module
    swift_bundles.for_linux(sources)
    (work / "driver").mkdir()
    shutil.copy(HERE / "swift_replies" / "Main.swift", work / "driver")
    (work / "notations.json").write_text(json.dumps({"notations": python.notations()}))
    shutil.copy(HERE / "swift_behaviour" / "ScriptedModel.swift", work / "driver")
    assert swift.compile(package.module, [*sources.glob("*.swift"), *(work / "driver").glob("*.swift")]) == ""
    (work / "cases.json").write_text(json.dumps({**python.all_cases(), "talks": reply_talks.talks(swift_cases.SYSTEM)}))
    names = (package.module, "ExecuTorch", "CryptoKit", "os", "Tokenizers", "Hub", "Darwin")
    found: dict[str, Any] = swift.wrote("replies", names, "facts.json", 600)
    return found


def test_messages_are_read_as_in_python(said: dict[str, Any]) -> None:
    cases = python.cases()
    pairs = zip(cases, said["messages"], map(python.read, cases), strict=True)
    wrong = [(case, app, mine) for case, app, mine in pairs if not python.same(app, mine)]
    assert not wrong, (len(wrong), wrong[:3])


def test_budgets_are_kept_to_the_token_as_in_python(said: dict[str, Any]) -> None:
    assert said["budgets"] == [python.held(case) for case in python.budget_cases()]


@pytest.mark.parametrize("name", reply_talks.WANTED)
def test_a_model_that_reasons_and_calls_tools_is_understood(said: dict[str, Any], name: str) -> None:
    assert reply_talks.same(said["talks"][name], name), said["talks"][name]
