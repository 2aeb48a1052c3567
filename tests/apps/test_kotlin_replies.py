"""Replies in the generated Kotlin: reasoning, answers and calls told apart as Python does, budgets kept exactly."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from edgec.apps.embed import kotlin_text
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.written_package import write_package
from edgec.bundle.folder import open_bundle
from tests.apps import reply_cases as python
from tests.apps import reply_talks
from tests.apps.android_bundles import CPU
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled

PACKAGE = kotlin_text.package_name(CPU.name)
pytestmark = [pytest.mark.slow, WITH_KOTLIN]


def driver() -> str:
    """The program that reads the cases."""
    return (STAND_INS / "Replies.kt.txt").read_text().replace("PACKAGE", PACKAGE)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the Kotlin reads and holds."""
    folder = tmp_path_factory.mktemp("replies")
    (folder / "cases.json").write_text(json.dumps({**python.all_cases(), "talks": reply_talks.talks()}))
    bundle = reply_talks.talking_bundle(folder / "tiny.edgec")
    write_package(gradle_modules(open_bundle(bundle), tools=reply_talks.TOOLS), folder / "out")
    (folder / "Replies.kt").write_text(driver())
    (folder / "notations.json").write_text(json.dumps(python.notations()))
    sources = [*sorted(STAND_INS.glob("*.kt")), *sorted((folder / "out/model").rglob("*.kt")), folder / "Replies.kt"]
    classes = compiled(sources, folder / "classes")
    paths = [folder / "cases.json", folder / "facts.json", bundle, folder / "own", folder / "notations.json"]
    line = ["java", "-cp", classes, f"{PACKAGE}.RepliesKt", *map(str, paths)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text())
    return facts


def test_messages_are_read_as_in_python(said: dict[str, Any]) -> None:
    cases = python.cases()
    wanted = [python.read(case) for case in cases]
    pairs = zip(cases, said["messages"], wanted, strict=True)
    wrong = [(case, app, mine) for case, app, mine in pairs if not python.same(app, mine)]
    assert not wrong, (len(wrong), wrong[:3])
    assert sum(bool(each["calls"]) for each in wanted) > 1000 and sum(bool(each["failed"]) for each in wanted) > 1000


@pytest.mark.parametrize("name", reply_talks.WANTED)
def test_a_model_that_reasons_and_calls_tools_is_understood(said: dict[str, Any], name: str) -> None:
    assert reply_talks.same(said["talks"][name], name), said["talks"][name]


def test_budgets_are_kept_to_the_token_as_in_python(said: dict[str, Any]) -> None:
    assert said["budgets"] == [python.held(case) for case in python.budget_cases()]
