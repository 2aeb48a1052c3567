"""Stop texts, streams and choices of tokens of the generated Kotlin, over the cases of the Swift ones, as in Python."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from edgec.apps.embed import kotlin_text
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.written_package import write_package
from tests.apps import swift_cases as python
from tests.apps.android_bundles import CPU, android_bundle
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled


@pytest.mark.slow
@WITH_KOTLIN
def test_stop_texts_streams_and_choices_are_pythons(tmp_path: Path) -> None:
    cases = {
        "stops": python.stop_cases(4000),
        "streams": python.stream_cases(1500),
        "choices": python.choice_cases(300),
    }
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    write_package(gradle_modules(android_bundle(tmp_path / "bundle", CPU)), tmp_path / "out")
    driver = tmp_path / "Pieces.kt"
    driver.write_text((STAND_INS / "Pieces.kt.txt").read_text().replace("PACKAGE", kotlin_text.package_name(CPU.name)))
    read = ("TextStream.kt", "Sampling.kt", "EdgecException.kt")
    sources = [next((tmp_path / "out").rglob(name)) for name in read]
    classes = compiled([*sources, driver], tmp_path / "classes")
    line = ["java", "-cp", classes, f"{kotlin_text.package_name(CPU.name)}.PiecesKt", str(tmp_path / "cases.json")]
    done = subprocess.run([*line, str(tmp_path / "facts.json")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["stopped"] == [python.stopped(case) for case in cases["stops"]]
    assert facts["streamed"] == [python.streamed(case) for case in cases["streams"]]
    for case, chosen in zip(cases["choices"], facts["chosen"], strict=True):
        may_be_drawn, *draws = chosen if case["temperature"] else [chosen]
        assert may_be_drawn == python.kept(case)
        assert all(draws[0] == draw and set(draw) <= set(may_be_drawn) for draw in draws)
