"""The generated Kotlin over the real engine in a Java machine: the app's CMake project compiled for this processor."""

from __future__ import annotations

import json
import subprocess
from itertools import islice
from pathlib import Path

import pytest

import edgec
from benchmarks.adapters import random_adapter
from edgec.apps.embed.embed import embed
from edgec.bundle.folder import open_bundle
from edgec.bundle.golden import read_golden
from edgec.runtime_py.adapters.adapter_file import write_adapter
from edgec.runtime_py.generate import stream_tokens
from edgec.runtime_py.sampling import Sampler, Sampling
from edgec.runtime_py.sessions.session import Session
from tests.apps.android_engine import build, lacking
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled
from tests.apps.schema_answers import (
    PROMPT,
    RunnerAnswers,
    assert_greedy,
    is_person,
    runner_answers,
    schema_option,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-stories"
pytestmark = [
    pytest.mark.slow,
    WITH_KOTLIN,
    pytest.mark.skipif(lacking(arm=False) is not None, reason=str(lacking(arm=False))),
]


def test_an_app_loads_generates_saves_and_refuses(tmp_path: Path) -> None:
    schemas = schema_option(tmp_path)
    bundle = edgec.export(EXAMPLE, target="android-cpu", out=tmp_path / "tiny.edgec", schemas=schemas)
    package = embed(bundle, "android", tmp_path / "kit").package
    engine = build(tmp_path / "kit", f"edgec_{package.module.rpartition('.')[2]}", arm=False)
    main = tmp_path / "Main.kt"
    main.write_text((STAND_INS / "EngineMain.kt.txt").read_text().replace("PACKAGE", package.module))
    others = ("ExecuTorch.kt", "OnnxRuntime.kt")
    stand_ins = [path for path in sorted(STAND_INS.glob("*.kt")) if path.name not in others]
    classes = compiled([*stand_ins, *sorted((tmp_path / "kit/model").rglob("*.kt")), main], tmp_path / "classes")
    opened = open_bundle(bundle)
    assert opened.golden_path is not None
    golden = read_golden(opened.golden_path).outputs[0]
    line = ["java", "-Xcheck:jni", f"-Djava.library.path={engine.folder}", "-cp", classes, f"{package.module}.MainKt"]
    adapter = random_adapter(opened, 8, seed=1, deviation=0.2)
    write_adapter(adapter, tmp_path / "a.adapter")
    words = [str(bundle), str(tmp_path / "own"), str(tmp_path / "a.adapter"), PROMPT, *map(str, golden.prompt_ids)]
    (tmp_path / "own").mkdir()
    done = subprocess.run([*line, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert "WARNING in native method" not in done.stdout + done.stderr
    said = dict(row.split("=", 1) for row in done.stdout.splitlines())
    assert_facts(said, golden.continuation_ids[:8])
    session = Session(opened)
    session.adapter = adapter
    adapted = list(islice(stream_tokens(session, golden.prompt_ids, Sampler(Sampling())), 8))
    assert said["adapted"] == str(adapted) != said["generated"] and said["still"] == f"({adapted}, a.adapter)"
    assert said["without"] == said["generated"]
    assert said["damaged adapter"].startswith("AdapterRefused: ") and "checksum" in said["damaged adapter"]
    assert_held(said, runner_answers(bundle, golden.prompt_ids))
    assert said["held adapted"] != said["held tokens"]
    assert_greedy(bundle, adapter, golden.prompt_ids, json.loads(said["held adapted"]))


def assert_held(said: dict[str, str], wanted: RunnerAnswers) -> None:
    """Assert what the program printed of schemas: the runner's texts, cut ones, and refusals as exceptions."""
    assert said["held"] == on_one_line(wanted.free["text"])
    assert said["held finish"] == {"complete": "COMPLETE", "eos": "END_OF_TEXT"}[wanted.free["finish"]]
    assert said["held tokens"] == str(wanted.tokens)
    assert said["held pieces"] == said["held whole"] == "true" and said["free again"] == said["generated"]
    drawn = {said[f"drawn {seed}"].replace("\\n", "\n") for seed in range(3)}
    assert all(map(is_person, drawn)) and len(drawn) > 1
    assert said["cut finish"] == "LENGTH" and said["cut"] and on_one_line(wanted.free["text"]).startswith(said["cut"])
    assert said["unfinished"].startswith("AnswerUnfinished: ") and "(LENGTH)" in said["unfinished"]
    refused = {
        "absent schema": "the bundle has no schema absent",
        "damaged schema": "damaged",
        "stopped schema": "stop texts",
    }
    for name, why in refused.items():
        assert said[name].startswith("SchemaRefused: ") and why in said[name]
    assert said["long schema"].startswith("PromptTooLong: ")
    assert said["closed schema"] == said["closed"]


def on_one_line(text: str) -> str:
    """The text as the program prints it."""
    return text.replace("\n", "\\n")


def assert_facts(said: dict[str, str], continuation: list[int]) -> None:
    """Assert what the program printed: this machine's own golden tokens, states, and failures as exceptions."""
    assert said["generated"] == said["again"] == str(continuation)
    assert said["saved"] == said["emptied"] == said["restored"] == "true"
    assert said["longer file"].startswith("RuntimeDiffers: ")
    assert said["closed"] == "EngineFailed: edgec's engine failed: the model is closed."
    assert said["token"].startswith("EngineFailed: ") and "tokens lie outside" in said["token"]
    assert said["absent"].startswith("EngineFailed: ") and "absent.pte" in said["absent"]
