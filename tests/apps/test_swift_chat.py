"""The sample's conversation, compiled and run over a scripted model: first start, answers, memory, background, heat."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed import app_facts
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import write_package
from edgec.bundle.folder import open_bundle
from tests.apps import swift_cases as python
from tests.apps.ios_bundles import bundle_of, decoder_manifest, target
from tests.apps.swift_bundles import LIMITS, for_linux, write_good
from tests.apps.swift_toolchain import Swift

HERE = Path(__file__).parent
TIMED = r"TTFT \d+ ms, \d+\.\d tokens/s \(measured\)"
NEW = 12


def test_the_sample_is_an_app_beside_the_package(tmp_path: Path) -> None:
    package = swift_package(bundle_of(decoder_manifest("pte-cpu"), tmp_path))
    swift = {path for path in package.files if path.startswith("Sample/EdgecChat/")}
    names = ("ChatApp", "ChatModel", "ChatScreen", "Pictures", "PictureButton", "SystemEvents")
    assert swift == {f"Sample/EdgecChat/{name}.swift" for name in names}
    assert "Sample/EdgecChat.xcodeproj/project.pbxproj" in package.files
    # Only what draws and what listens to the system needs Apple's frameworks.
    model = str(package.files["Sample/EdgecChat/ChatModel.swift"])
    assert "SwiftUI" not in model and "UIKit" not in model


@pytest.fixture(scope="module")
def seen(swift: Swift) -> dict[str, Any]:
    """What the sample's conversation looked like after each event."""
    work = swift.work / "chat"
    work.mkdir()
    bundle = write_good(work / "bundle", "dynamic")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_facts, "load_target", target)
        package = swift_package(open_bundle(bundle))
    write_package(package, work / "kit")
    kit = work / "kit" / "Sources" / package.module
    for_linux(kit)
    assert swift.compile(package.module, sorted(kit.glob("*.swift"))) == ""
    driver = work / "driver"
    driver.mkdir()
    scripted = (HERE / "swift_behaviour" / "ScriptedModel.swift").read_text()
    (driver / "ScriptedModel.swift").write_text(f"import {package.module}\n{scripted}")
    (driver / "Main.swift").write_text((HERE / "swift_chat" / "Main.swift").read_text().replace("KIT", package.module))
    shutil.copy(work / "kit" / "Sample" / "EdgecChat" / "ChatModel.swift", driver)
    assert swift.compile("EdgecChat", sorted(driver.glob("*.swift"))) == ""
    names = ("EdgecChat", package.module, "ExecuTorch", "CryptoKit", "os", "Tokenizers", "Hub", "Darwin")
    # Swift 6.0's Observation for Linux refers to a function of the runtime that no library exports, for fatal errors.
    lenient = ["-Xlinker", "--unresolved-symbols=ignore-in-shared-libs"]
    found: dict[str, Any] = swift.wrote("chat", names, "seen.json", 120, *lenient)
    return found


def answer(*turns: tuple[str, str]) -> str:
    """What the Python runtime answers to a conversation, with the same limit."""
    pieces, _ = python.answer({"chat": [list(turn) for turn in turns], "maxNewTokens": NEW}, LIMITS)
    return "".join(map(str, pieces))


@pytest.mark.slow
def test_a_first_start_tells_its_steps_and_a_later_one_only_that_it_loads(seen: dict[str, Any]) -> None:
    steps = seen["steps first"]["lines"][0]
    hashed = [tuple(map(int, re.findall(r"\d+", step))) for step in steps if step.startswith("checking")]
    assert [steps[0], *steps[len(hashed) + 1 :]] == ["finding", "loading", "comparing"]
    done, of = zip(*hashed, strict=True)
    assert len(done) > 3 and sorted(set(done)) == list(done) and set(of) == {done[-1]}
    assert seen["steps later"]["lines"][0][len(steps) :] == ["finding", "loading"]


@pytest.mark.slow
def test_answers_are_the_models_with_their_timings(seen: dict[str, Any]) -> None:
    first = answer(("user", "Hi"))
    second = answer(("user", "Hi"), ("assistant", first), ("user", "So"))
    lines = seen["second"]["lines"]
    assert [line[:2] for line in lines] == [["user", "Hi"], ["assistant", first], ["user", "So"], ["assistant", second]]
    assert re.fullmatch(TIMED, lines[1][2]) and re.fullmatch(TIMED, lines[3][2])
    assert seen["second"]["stage"] == seen["answered"]["stage"] == "ready"
    assert seen["cool"]["lines"][1][1] == first


@pytest.mark.slow
def test_little_memory_ends_the_answer_and_unloads_but_keeps_the_conversation(seen: dict[str, Any]) -> None:
    assert seen["memory"]["stage"] == "unloaded" and "short of memory" in seen["memory"]["notice"]
    assert [line[2] for line in seen["memory"]["lines"]] == [None, "stopped"]
    assert seen["unloaded while loading"]["stage"] == seen["unloaded"]["stage"] == "unloaded"


@pytest.mark.slow
@pytest.mark.parametrize("event", ["background", "hot"])
def test_background_and_heat_end_the_answer_and_keep_the_model(seen: dict[str, Any], event: str) -> None:
    role, text, note = seen[event]["lines"][-1]
    assert seen[event]["stage"] == "ready" and (role, note) == ("assistant", "stopped") and text
    turns = [(line[0], line[1]) for line in seen[event]["lines"][:-1]]
    whole = answer(*turns)
    assert whole.startswith(text) and text != whole


@pytest.mark.slow
def test_a_hot_device_gets_no_new_work(seen: dict[str, Any]) -> None:
    assert seen["too hot"]["lines"] == seen["hot"]["lines"] and "too hot" in seen["too hot"]["notice"]
    assert "slower" in seen["warm"]["notice"] and "notice" not in seen["cleared"]
    assert seen["cleared"]["lines"] == [] and len(seen["cool"]["lines"]) == 2


@pytest.mark.slow
def test_nothing_is_said_before_the_model_is_there_and_failures_say_what_to_do(seen: dict[str, Any]) -> None:
    assert (seen["before"]["stage"], seen["before"]["lines"]) == ("unloaded", [])
    assert seen["loaded"]["stage"] == "ready" and "notice" not in seen["loaded"]
    assert re.match(r'failed\("The model.{1,2}s files are missing: .* Run `edgec embed` again', seen["failed"]["stage"])
