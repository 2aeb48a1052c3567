"""Sentence encoders in the standalone runner: the vectors of Python, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import edgec
from edgec.engine.compile.build import build_runner
from tests.engine.test_runner import run_runner
from tests.exporter.tiny_sentence_encoder import POSITIONS, save_sentence_encoder

pytestmark = pytest.mark.long
# The same kernels, loaded by another program.
SAME_KERNELS = 1e-6
TEXTS = [[2, 3], [2, 5, 9, 3], [2, *range(4, 18), 4, 5, 3], [2] * POSITIONS]


@pytest.fixture(scope="module", params=["float", "8bit"])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save_sentence_encoder(tmp_path_factory.mktemp("encoder") / "tiny")
    return edgec.export(folder, target="host", recipe=request.param, out=folder.parent / "tiny.edgec")


def words(ids: list[int], between: str) -> str:
    return between.join(map(str, ids))


def test_vectors_are_those_of_python(encoder: Path, tmp_path: Path) -> None:
    wanted = edgec.load(encoder).embed(TEXTS)
    requests = "".join(f"embed {words(text, ' ')}\n" for text in TEXTS)
    loaded, *told = run_runner("--bundle", encoder, "--packed", tmp_path, "--embed", stdin=requests)
    assert loaded["event"] == "loaded" and [one["event"] for one in told] == ["embedded"] * len(TEXTS)
    assert [one["tokens"] for one in told] == list(map(len, TEXTS))
    np.testing.assert_allclose([one["vector"] for one in told], wanted, atol=SAME_KERNELS)
    _, alone = run_runner("--bundle", encoder, "--embed", "--tokens", words(TEXTS[2], ","))
    assert alone["vector"] == told[2]["vector"] and alone["embed_ms"] > 0


def refusal(*arguments: object, stdin: str = "") -> str:
    line = [str(build_runner().runner), *map(str, arguments)]
    done = subprocess.run(line, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 1, "refused, and not killed"
    return done.stderr


def test_what_is_no_text_is_refused(encoder: Path, tiny_bundle: Path) -> None:
    bundle = ("--bundle", encoder)
    assert "makes no vectors" in refusal("--bundle", tiny_bundle, "--embed", "--tokens", "1,2")
    assert "not a decoder's" in refusal(*bundle, "--tokens", "2,3")
    assert "a text has no tokens" in refusal(*bundle, "--embed", stdin="embed \n")
    assert 'not "score 2 3"' in refusal(*bundle, "--embed", stdin="score 2 3\n")
    assert "error: " in refusal(*bundle, "--embed", "--tokens", words([2] * (POSITIONS + 1), ","))
    assert "error: " in refusal(*bundle, "--embed", "--tokens", "2,1000000,3")
    for other in (["--score"], ["--schema", "a"], ["--new-tokens", "3"]):
        assert "--embed goes with --tokens alone" in refusal(*bundle, "--embed", "--tokens", "2,3", *other)
