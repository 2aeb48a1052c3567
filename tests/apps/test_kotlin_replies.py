"""Replies in the generated Kotlin: reasoning, answers and calls told apart as Python does, budgets kept exactly."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from edgec.apps.embed import kotlin_text
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.reply_constants import KOTLIN, call_notation, frame_marks, thinking_notation, tool_constants
from edgec.apps.embed.written_package import write_package
from edgec.bundle.folder import open_bundle
from edgec.bundle.notations import PLAIN
from tests.apps import reply_cases as python
from tests.apps import reply_talks
from tests.apps.android_bundles import CPU
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled

PACKAGE = kotlin_text.package_name(CPU.name)
pytestmark = [pytest.mark.slow, WITH_KOTLIN]


def driver() -> str:
    """The program that reads the cases, with every row of the table of notations as the generator writes it."""
    frames = (next((form.frame for form in (calls, thinking) if form), PLAIN) for thinking, calls in python.NOTATIONS)
    marks = ["listOf<String>(" + ", ".join(map(KOTLIN.string, frame_marks(frame))) + ")" for frame in frames]
    filled = {
        "PACKAGE": PACKAGE,
        "THINKING": ", ".join(thinking_notation(thinking, (0,), (1,), KOTLIN) for thinking, _ in python.NOTATIONS),
        "CALLS": ",\n    ".join(call_notation(calls, KOTLIN) for _, calls in python.NOTATIONS),
        "FRAMES": ", ".join(marks),
        "TOOLS": tool_constants(python.TOOLS, KOTLIN),
    }
    text = (STAND_INS / "Replies.kt.txt").read_text()
    for name, value in filled.items():
        text = text.replace(f"({name})" if name != "PACKAGE" else name, f"({value})" if name != "PACKAGE" else value)
    return text


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the Kotlin reads and holds."""
    folder = tmp_path_factory.mktemp("replies")
    (folder / "cases.json").write_text(json.dumps({**python.all_cases(), "talks": reply_talks.talks()}))
    bundle = reply_talks.talking_bundle(folder / "tiny.edgec")
    write_package(gradle_modules(open_bundle(bundle), tools=reply_talks.TOOLS), folder / "out")
    (folder / "Replies.kt").write_text(driver())
    sources = [*sorted(STAND_INS.glob("*.kt")), *sorted((folder / "out/model").rglob("*.kt")), folder / "Replies.kt"]
    classes = compiled(sources, folder / "classes")
    paths = [folder / "cases.json", folder / "facts.json", bundle, folder / "own"]
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
