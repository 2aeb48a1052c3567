"""The generated Kotlin, compiled and run over stand-ins for Android and the runtimes."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.apps.embed import kotlin_text
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.written_package import write_package
from edgec.bundle.folder import open_bundle
from edgec.bundle.manifest import Manifest
from edgec.runtime_py.decoding.forced_text import log_softmax
from edgec.runtime_py.decoding.stopping import StopText
from tests.apps.android_bundles import (
    CPU,
    GPU,
    HEXAGON,
    ONNX,
    android_bundle,
)
from tests.apps.kotlin_bundles import golden_vectors, real_bundle, rule
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled


def _stand_ins(real: str | None = None) -> list[Path]:
    left_out = ("ExecuTorch.kt", "OnnxRuntime.kt") if real else ()
    return [path for path in sorted(STAND_INS.rglob("*.kt")) if path.name not in left_out]


@pytest.mark.slow
@WITH_KOTLIN
@pytest.mark.parametrize(
    ("manifest", "name"),
    [(CPU, "plain"), (CPU, '"; error("out") // ${1} \\ \u2028 \U0001f600'), (GPU, "plain"), (HEXAGON, "plain")],
    ids=["cpu", "odd name", "gpu", "hexagon"],
)
def test_the_kotlin_compiles(manifest: Manifest, name: str, tmp_path: Path) -> None:
    bundle = android_bundle(tmp_path / "bundle", manifest)
    first, *others = bundle.manifest.methods
    tensors = [tensor.model_copy(update={"name": name}) for tensor in first.outputs]
    methods = [first.model_copy(update={"outputs": tensors}), *others]
    odd = bundle.manifest.model_copy(update={"name": name, "recipe": {"name": name}, "methods": methods})
    write_package(gradle_modules(replace(bundle, manifest=odd)), tmp_path / "out")
    real = os.environ.get("EDGEC_EXECUTORCH_CLASSES")
    compiled([*_stand_ins(real), *sorted((tmp_path / "out").rglob("*.kt"))], tmp_path / "classes", real)


# A chunk of the static methods is padded. The sample's cache for the CPU has a ring and cannot rewind, so the same
# prompt is fed again; the other one computes the last token, and 40 after 400, where no whole chunk fits anymore.
CALLS = {
    "cpu": {"calls": [128, 128, 44, 1, 1], "calls again": [128, 128, 44], "calls second": [128, 128, 128, 56, 1]},
    "static": {"calls": [128, 128, 128, 1, 1], "calls again": [1], "calls second": [1] * 41},
}


@pytest.mark.slow
@WITH_KOTLIN
@pytest.mark.parametrize(
    ("kind", "manifest"),
    [("cpu", CPU), ("static", GPU), ("static", ONNX), ("static", HEXAGON)],
    ids=["cpu", "gpu", "onnx", "hexagon"],
)
def test_the_wrapper_does_what_the_runtime_in_python_does(kind: str, manifest: Manifest, tmp_path: Path) -> None:
    """Generated sources, compiled and run over stand-ins: chunks, cache, sampling, stops, checks."""
    good = golden_vectors()
    wrong = good.model_copy(update={"outputs": (good.outputs[0].model_copy(update={"continuation_ids": [1, 1, 1]}),)})
    bundle = real_bundle(tmp_path / "tiny.edgec", manifest, good)
    write_package(gradle_modules(open_bundle(bundle)), tmp_path / "out")
    other = real_bundle(tmp_path / "wrong.edgec", manifest, wrong)
    package = kotlin_text.package_name("stories260K-host")
    main = tmp_path / "Main.kt"
    main.write_text((STAND_INS / "Main.kt.txt").read_text().replace("PACKAGE", package))
    classes = compiled([*_stand_ins(), *sorted((tmp_path / "out/model").rglob("*.kt")), main], tmp_path / "classes")
    line = ["java", "-cp", classes, f"{package}.MainKt", str(bundle), str(tmp_path / "own"), str(other)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = dict(row.split("=", 1) for row in done.stdout.splitlines())
    assert {name: said[name] for name in CALLS[kind]} == {name: str(calls) for name, calls in CALLS[kind].items()}
    _assert_facts(said)


def _score(tokens: list[int], text: str) -> str:
    """A text's score after some tokens, in words, by the stand-ins' model."""
    total, greedy, before = 0.0, True, list(tokens)
    for token in text.encode():
        (likeliest,) = rule(before, 1)
        logits = -np.float32(0.001) * np.arange(512, dtype=np.float32)
        logits[likeliest] = 5
        total += float(log_softmax(logits)[token])
        greedy = greedy and token == likeliest
        before.append(token)
    return f"{text} {total:.5f} {len(text.encode())} {str(greedy).lower()}"


def _assert_facts(said: dict[str, str]) -> None:
    long = [40 + i % 50 for i in range(300)]
    second = [*(40 + i % 50 for i in range(400)), *(33 + i % 7 for i in range(40))]
    once = bytes(rule([1, *b"Once"], 12)).decode()
    stops = StopText(("ND", "END", "DO"))
    filtered = [*map(stops.feed, ("abE", "N", "x", "yEND")), stops.hit]
    assert said["poor"] == "NotEnoughMemory"
    # Its files are other files than the app was made for, so it fails before its golden vectors are looked at.
    assert said["refused"] == "BundleAltered"
    assert said["long"] == str(rule(long, 3)) and said["again"] == str(rule(long, 1))
    assert said["second"] == str(rule(second, 2))
    assert said["text"] == once and said["finish"] == "LENGTH"
    assert said["stopped"] == once[: once.index(once[4:7])] and said["finish stopped"] == "STOP_TEXT"
    assert said["drawn"] == str(sorted([*rule([65], 1), 0, 1])) and said["option"] == "OptionOutOfRange"
    assert said["schema"] == "SchemaRefused", "only edgec's engine holds answers to schemas"
    asked = [1, *b"Once"]
    scored = [_score(asked, text) for text in (bytes(rule(asked, 3)).decode(), "Gras", "é")]
    assert said["scores"] == f"[{', '.join(scored)}]" and scored[0].endswith("true") and scored[1].endswith("false")
    assert said["scores refused"] == "[EdgecException, PromptTooLong]", "all are checked before any is computed"
    assert said["too long"] == "PromptTooLong" and said["altered"] == "BundleAltered"
    assert said["unknown"] == "[TokenUnknown, TokenUnknown]"
    # Neither a failure nor a reader that leaves has the reason of the answer before it.
    assert said["finish too long"] == said["finish left"] == "null" and said["left"] == "2"
    assert said["chat"] == "<s>CITIZEN:\\nHi\\n\\nMENENIUS:\\n"
    assert said["stream"] == "[, é, !]" and said["filter"] == str(filtered).replace("'", "")
