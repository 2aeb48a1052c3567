"""The generated Kotlin of a sentence encoder, run in desktop Java: its vectors are those of the runtime in Python.

Android's and the runtimes' classes are stand-ins; what they are asked to execute, Python executes with the bundle's own
artifact. So tokens, cuts, padding, mask, call and output are the app's, and the arithmetic is the same on both sides.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest

import edgec
from edgec.apps.embed.embed import embed
from edgec.runtime_py.functions.function import Function
from edgec.runtime_py.model import Model
from tests.apps.encoder_bundles import PROMPTS, TEXTS, encoder_bundle
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled
from tests.exporter.tiny_sentence_encoder import POSITIONS

pytestmark = [pytest.mark.slow, WITH_KOTLIN]

CASES = {"pte": ("AskingExecuTorch", "mean_tokens", "right"), "onnx": ("AskingOnnxRuntime", "cls_token", "left")}
Said = dict[str, str]


@pytest.fixture(scope="module", params=CASES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Said]:
    """A loaded bundle, and what the compiled app says about the texts."""
    stand_in, pooling, side = CASES[request.param]
    if request.param == "onnx":
        pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp(request.param)
    bundle = encoder_bundle(folder, "android-cpu", request.param, pooling, side)
    package = embed(bundle, "android", folder / "kit").package
    (folder / "Runtime.kt").write_text((STAND_INS / f"{stand_in}.kt.txt").read_text())
    (folder / "Main.kt").write_text((STAND_INS / "EncoderMain.kt.txt").read_text().replace("PACKAGE", package.module))
    sources = [path for path in sorted(STAND_INS.glob("*.kt")) if path.name not in ("ExecuTorch.kt", "OnnxRuntime.kt")]
    sources += [*sorted((folder / "kit" / "model").rglob("*.kt")), folder / "Runtime.kt", folder / "Main.kt"]
    classes = compiled(sources, folder / "classes")
    (folder / "texts.json").write_text(json.dumps({"texts": TEXTS}))
    line = ["java", "-Dfile.encoding=UTF-8", "-cp", classes, f"{package.module}.MainKt", str(bundle)]
    model = edgec.load(bundle)
    return model, dict(_answered([*line, str(folder / "own"), str(folder / "texts.json")], model))


def _answered(line: list[str], model: Model) -> Iterator[tuple[str, str]]:
    """Run the program, execute what it asks for, wrongly the first time, and give the facts that it prints."""
    function, wrong = Function(model.bundle), True
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        for row in process.stdout:
            if row.startswith("run "):
                values = _executed(function, row) + wrong
                process.stdin.write(" ".join(map(str, values.tolist())) + "\n")
                process.stdin.flush()
                wrong = False
            else:
                name, _, value = row.rstrip("\n").partition("=")
                yield name, value
    assert process.returncode == 0


def _executed(function: Function, row: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    _, method, numbers = row.split()
    assert method == function.info.name
    given = dict(zip(("input_ids", "attention_mask"), numbers.split(";"), strict=True))
    arrays = {t.name: np.array([given[t.name].split(",")], np.int64).astype(t.dtype) for t in function.info.inputs}
    return np.asarray(function.run(**arrays)["sentence_embedding"][0], np.float32)


def _vector(said: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(said.split(), np.float32)


def test_each_vector_is_pythons(made: tuple[Model, Said]) -> None:
    """Bit for bit: one artifact computes both from the same tokens, and floats are written so that they come back."""
    model, said = made
    for index, text in enumerate(TEXTS):
        wanted = model.embed(text, truncate=True)
        assert np.array_equal(_vector(said[f"cut {index}"]), wanted), text[:40]
        long = model.embedded_tokens(text, truncate=True) < int(said[f"tokens {index}"])
        assert said[f"whole {index}"] == ("TextTooLong" if long else said[f"cut {index}"])
    assert [said[f"whole {index}"] == "TextTooLong" for index in range(len(TEXTS))] == [False] * 8 + [True] * 2


def test_prompts_go_before_texts_as_in_python(made: tuple[Model, Said]) -> None:
    model, said = made
    assert set(model.prompts.unpooled) == set(PROMPTS)
    for name in (*PROMPTS, "document"):
        for index, text in enumerate(TEXTS):
            wanted = model.embed(text, truncate=True, prompt_name=name)
            assert np.array_equal(_vector(said[f"{name} {index}"]), wanted), (name, text[:40])
    assert said["no such prompt"] == "PromptUnknown"
    assert np.array_equal(_vector(said["no prompt"]), model.embed("a", prompt_name=""))


def test_texts_are_read_before_the_first_is_computed_and_come_back_in_order(made: tuple[Model, Said]) -> None:
    _, said = made
    assert said["together"] == " ".join(said[f"cut {index}"] for index in range(len(TEXTS)))
    assert (said["one too long"], said["none"]) == ("TextTooLong", "0")


def test_the_first_start_compares_a_vector(made: tuple[Model, Said]) -> None:
    _, said = made
    assert (said["wrong"], said["loaded"]) == ("OutputDiffers", "true")
    assert said["limits"] == f"{POSITIONS} 32"
