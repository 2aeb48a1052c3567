"""The sample's conversation in Kotlin, run over a scripted model: first start, answers, memory, background, heat."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.apps.embed import kotlin_text
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.written_package import write_package
from edgec.bundle.folder import open_bundle
from tests.apps.android_bundles import CPU, android_bundle
from tests.apps.kotlin_bundles import golden_vectors, real_bundle, rule
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled

TIMED = r"TTFT \d+ ms, \d+\.\d tokens/s \(measured\)"
NEW = 12


def test_the_sample_is_a_module_beside_the_model(tmp_path: Path) -> None:
    package = gradle_modules(android_bundle(tmp_path, CPU))
    sources = [path for path in package.files if path.startswith("sample/") and path.endswith(".kt")]
    assert {Path(path).stem for path in sources} == {
        *("ChatActivity", "ChatModel", "ChatScreen"),
        *("Pictures", "PictureButton"),
    }
    build = str(package.files["sample/build.gradle.kts"])
    assert "buildFeatures { compose = true }" in build and "compose-bom:$edgecCompose" in build
    assert "edgecModules=model,bench,sample" in str(package.files["gradle.properties"])
    # Only what draws and what listens to the system needs Android's classes.
    model = str(package.files[next(path for path in sources if path.endswith("ChatModel.kt"))])
    assert "import android" not in model


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the sample's conversation looked like after each event."""
    folder = tmp_path_factory.mktemp("chat")
    bundle = real_bundle(folder / "tiny.edgec", CPU, golden_vectors())
    write_package(gradle_modules(open_bundle(bundle)), folder / "out")
    package = kotlin_text.package_name("stories260K-host")
    main = folder / "ChatMain.kt"
    main.write_text((STAND_INS / "ChatMain.kt.txt").read_text().replace("PACKAGE", package))
    model = [path for name in ("ChatModel", "Pictures") for path in (folder / "out" / "sample").rglob(f"{name}.kt")]
    sources = [*sorted(STAND_INS.glob("*.kt")), *sorted((folder / "out/model").rglob("*.kt")), *model, main]
    classes = compiled(sources, folder / "classes")
    line = ["java", "-cp", classes, f"{package}.sample.ChatMainKt", str(bundle), str(folder / "own")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(row.split("=", 1) for row in done.stdout.rstrip("\n").split("\n"))


def look(seen: str) -> tuple[str, list[list[str]], str]:
    """A state's stage, its messages (role, text, note), its notice."""
    stage, lines, notice = seen.split("\x1d")
    return stage, [line.split("\x1f") for line in lines.split("\x1e") if line], notice


def answer(*turns: tuple[str, str]) -> str:
    """What the stand-ins' model says to a conversation in the example's template."""
    heads = {"user": "CITIZEN:\n", "assistant": "MENENIUS:\n"}
    rendered = "".join(f"{heads[role]}{text.strip()}\n\n" for role, text in turns) + heads["assistant"]
    return bytes(rule([1, *rendered.encode()], NEW)).decode()


def slow(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that compiles Kotlin."""
    result: Callable[..., None] = pytest.mark.slow(WITH_KOTLIN(test))
    return result


@slow
def test_a_first_start_tells_its_steps_and_a_later_one_only_that_it_loads(said: dict[str, str]) -> None:
    steps = re.findall(r"(\w+)(?:\(bytes=(\d+), of=(\d+)\))?", said["steps first"])
    names = list(dict.fromkeys(name for name, _, _ in steps))
    assert names == ["Copying", "Checking", "Loading", "Comparing"]
    for name in names[:2]:
        told = [(int(done), int(of)) for each, done, of in steps if each == name]
        assert told == sorted(told) and len(told) > 3 and {of for _, of in told} == {told[-1][0]}
    assert said["steps later"] == "Loading"
    assert look(said["loaded first"])[0] == look(said["loaded later"])[0] == "Ready"


@slow
def test_answers_are_the_models_with_their_timings(said: dict[str, str]) -> None:
    first = answer(("user", "Hi"))
    second = answer(("user", "Hi"), ("assistant", first), ("user", "So"))
    stage, lines, _ = look(said["second"])
    assert [line[:2] for line in lines] == [["user", "Hi"], ["assistant", first], ["user", "So"], ["assistant", second]]
    assert stage == "Ready" and all(re.fullmatch(TIMED, line[2]) for line in lines[1::2])
    assert look(said["cool"])[1][1][1] == first
    assert look(said["before"]) == ("Unloaded", [], "null")


@slow
def test_little_memory_ends_the_answer_and_unloads_but_keeps_the_conversation(said: dict[str, str]) -> None:
    stage, lines, notice = look(said["memory"])
    assert stage == "Unloaded" and "short of memory" in notice
    assert len(lines) == 6 and lines[5][2] == "stopped"
    assert look(said["unloaded while loading"])[0] == look(said["unloaded"])[0] == "Unloaded"


@slow
@pytest.mark.parametrize("event", ["background", "hot"])
def test_background_and_heat_end_the_answer_and_keep_the_model(said: dict[str, str], event: str) -> None:
    stage, lines, _ = look(said[event])
    role, text, note = lines[-1]
    whole = answer(*((line[0], line[1]) for line in lines[:-1]))
    assert (stage, role, note) == ("Ready", "assistant", "stopped")
    assert text and text != whole and whole.startswith(text)


@slow
def test_an_answer_that_ends_before_it_begins_leaves_the_model_ready(said: dict[str, str]) -> None:
    stage, lines, _ = look(said["stopped at once"])
    # A piece may have come by then.
    assert (stage, lines[-1][0], lines[-1][2]) == ("Ready", "assistant", "stopped")


@slow
def test_a_hot_device_gets_no_new_work_and_failures_say_what_to_do(said: dict[str, str]) -> None:
    assert look(said["too hot"])[1] == look(said["hot"])[1] and "too hot" in look(said["too hot"])[2]
    assert "slower" in look(said["warm"])[2] and len(look(said["cool"])[1]) == 2
    assert look(said["failed"])[0] == "Failed(why=no model. Do this.)"
