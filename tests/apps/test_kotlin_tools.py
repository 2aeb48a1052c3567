"""Calls that edgec's engine holds to their tools in the generated Kotlin: Python's greedy replies, all notations."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.apps.embed.constrained_calls import FOLDER
from edgec.apps.embed.project import PACKAGE
from edgec.apps.embed.reply_values import reply_values
from edgec.engine.compile.build import build_runner
from edgec.exporter.apps import embed
from tests.apps.android_engine import jni_folders, lacking
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled
from tests.apps.project_files import in_android
from tests.apps.schema_answers import is_person, schema_option
from tests.apps.tool_answers import NAMES, TOOLS, Spoken, assert_held, source_with_marks, spoken

pytestmark = [
    pytest.mark.slow,
    WITH_KOTLIN,
    pytest.mark.skipif(lacking(arm=False) is not None, reason=str(lacking(arm=False))),
]
# val switches: List<String> = facts.texts("switches")
_PROPERTY = re.compile(r"^    val (\w+: [^=]+) = (facts\..*)$", re.MULTILINE)


def facts_of_all(source: str) -> str:
    """`ReplyFacts` with the facts of several notations, of which the test chooses one after the other."""
    whole = source.replace(
        'private val facts = Facts.OF_MODEL.part("replies")', "private val facts get() = NotationUnderTest.facts"
    )
    read, count = _PROPERTY.subn(r"    val \1 get() = \2", whole)
    assert count > 10
    return (
        read
        + """
internal object NotationUnderTest {
    private val all = Facts.read(java.io.File(System.getProperty("notations")).readBytes()).parts("all")
    var place = 0
    val facts get() = all[place]
}
"""
    )


def native_library(kit: Path, package: str, folder: Path) -> Path:
    """The JNI functions of an app, over the engine that Python calls, so that both add floats in one order."""
    engine = build_runner().library
    (source,) = kit.rglob("edgec_jni.cpp")
    includes = [
        f"-I{path}"
        for path in (source.parent, source.parent / "edgec", source.parent / "edgec" / "include", *jni_folders())
    ]
    name = f"edgec_{package.rpartition('.')[2]}"
    prefix = f"Java_{package.replace('.', '_')}_NativeEngine_"
    failure = f'"{package.replace(".", "/")}/EngineFailed"'
    line = ["c++", "-std=c++17", "-O1", "-shared", "-fPIC", *includes, f"-DEDGEC_JNI_PREFIX={prefix}"]
    line += [f"-DEDGEC_JNI_FAILURE={failure}", str(source), "-o", str(folder / f"lib{name}.so"), str(engine)]
    done = subprocess.run([*line, f"-Wl,-rpath,{engine.parent}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def all_said(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Spoken], dict[str, Any]]:
    """What Python and the app say in each notation, and what the app refuses."""
    work = tmp_path_factory.mktemp("tools")
    source = source_with_marks(work / "source")
    schemas = schema_option(work)
    bundle = edgec.export(source, target="android-cpu", out=work / "tiny.edgec", schemas=schemas)
    made = embed(bundle, "android", work / "kit", tools=[tool.definition for tool in TOOLS])
    notations = [spoken(bundle, name, work) for name in NAMES]
    assets = work / f"kit/model/src/main/assets/{made.package.module}.{FOLDER}"
    assert {path.name: path.read_bytes() for path in assets.iterdir()} == notations[0].held.files
    for place, notation in enumerate(notations):
        (work / f"calls/{place}").mkdir(parents=True)
        for name, content in notation.held.files.items():
            (work / f"calls/{place}/{name}").write_bytes(content)
    (facts,) = (work / "kit").rglob("ReplyFacts.kt")
    template = in_android("ReplyFacts").replace(PACKAGE, made.package.module)
    facts.write_text(facts_of_all(template))
    values = [reply_values(replace(notation.facts, held=notation.held)) for notation in notations]
    (work / "notations.json").write_text(json.dumps({"all": values}))
    main = work / "Main.kt"
    main.write_text((STAND_INS / "ToolsMain.kt.txt").read_text().replace("PACKAGE", made.package.module))
    others = ("ExecuTorch.kt", "OnnxRuntime.kt")
    stand_ins = [path for path in sorted(STAND_INS.glob("*.kt")) if path.name not in others]
    kit = [path for module in ("model", "model_json") for path in sorted((work / f"kit/{module}").rglob("*.kt"))]
    classes = compiled([*stand_ins, *kit, main], work / "classes")
    (work / "native").mkdir()
    native = native_library(work / "kit", made.package.module, work / "native")
    (work / "cases.json").write_text(json.dumps([notation.steps for notation in notations]))
    (work / "own").mkdir()
    line = [
        "java",
        "-Xcheck:jni",
        f"-Djava.library.path={native}",
        f"-Dnotations={work / 'notations.json'}",
        "-cp",
        classes,
        f"{made.package.module}.MainKt",
    ]
    paths = [work / "cases.json", work / "said.json", bundle, work / "calls", work / "own"]
    done = subprocess.run([*line, *map(str, paths)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    said: dict[str, Any] = json.loads((work / "said.json").read_text())
    return notations, said


@pytest.mark.parametrize("name", NAMES)
def test_greedy_replies_are_those_of_python(all_said: tuple[list[Spoken], dict[str, Any]], name: str) -> None:
    place, (notations, said) = NAMES.index(name), all_said
    assert_held(notations[place], said["said"][place])


def test_what_cannot_be_held_is_refused(all_said: tuple[list[Spoken], dict[str, Any]]) -> None:
    _, said = all_said
    refused = said["refused"]
    assert refused["unknown tool"].startswith("ToolChoiceRefused: ") and "tool absent" in refused["unknown tool"]
    assert refused["no tools"].startswith("ToolChoiceRefused: ") and "sees no tools" in refused["no tools"]
    assert refused["tools and a schema"].startswith("SchemaRefused: ")
    assert refused["stop texts"].startswith("SchemaRefused: ")
    assert is_person(refused["value"]) and json.loads(refused["value"])["pet"] in ("dog", "cat", "frog")
    assert refused["unfinished value"].startswith("AnswerUnfinished: ")
    assert refused["changed"].startswith("BundleAltered: ") and "sha256" in refused["changed"]
