"""What counts as done: the same inputs, not the same words, and a bundle that is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from edgec.bundle.folder import write_bundle
from edgec.exporter.sweep import sweep as sweep_module
from edgec.exporter.sweep.step import Done, SweepStep
from edgec.exporter.sweep.sweep import sweep
from tests.runtime_py.tiny_decoder import manifest

SPEC = """
models = ["model"]
recipes = ["own.toml", "4bit"]
targets = ["host"]
devices = ["host", "adb:PHONE"]
[export]
calibrate = "text.txt"
"""


class Recorder:
    """An engine that writes small bundles; ``asked`` are the engines by name, with their steps."""

    def __init__(self, name: str, asked: list[tuple[str, SweepStep]]) -> None:
        self.name, self.asked = name, asked

    def run(self, steps: Sequence[SweepStep]) -> Iterator[Done]:
        for step in steps:
            self.asked.append((self.name, step))
            if step.words[0] == "export":
                write_bundle(Path(step.words[step.words.index("--out") + 1]), manifest(), {"model.pte": b"x"}, True)
            yield Done(step.key, {"figures": []}, None)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, SweepStep]]:
    """A small grid in the working directory; what is asked of which engine."""
    steps: list[tuple[str, SweepStep]] = []
    monkeypatch.setattr(sweep_module, "engine_named", lambda name, workers: Recorder(name, steps))
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    Path("model/config.json").write_text("{}")
    Path("own.toml").write_text("a")
    Path("text.txt").write_text("a")
    Path("grid.toml").write_text(SPEC)
    return steps


def again(asked: list[tuple[str, SweepStep]]) -> list[str]:
    """The verbs of the steps that a further run makes."""
    before = len(asked)
    sweep("grid.toml", "out", engine="ray")
    return [step.words[0] for _, step in asked[before:]]


ALL, ONE = ["export"] * 2 + ["bench"] * 4, ["export"] + ["bench"] * 2


@pytest.mark.long
def test_changed_inputs_are_new_steps(asked: list[tuple[str, SweepStep]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert again(asked) == ALL and again(asked) == []
    Path("own.toml").write_text("b")
    assert again(asked) == ONE and again(asked) == []
    os.utime("model/config.json", ns=(1, 1))
    assert again(asked) == ALL and again(asked) == []
    Path("model/model.safetensors").write_bytes(b"x")
    assert again(asked) == ALL
    Path("text.txt").write_text("other")
    assert again(asked) == ALL
    monkeypatch.setattr("edgec.installation.__version__", "99.0")
    assert again(asked) == ALL and again(asked) == []


def test_a_recipe_that_is_only_touched_is_the_same(asked: list[tuple[str, SweepStep]]) -> None:
    again(asked)
    os.utime("own.toml", ns=(1, 1))
    assert again(asked) == []


def test_a_bundle_that_was_deleted_is_made_again(asked: list[tuple[str, SweepStep]]) -> None:
    again(asked)
    shutil.rmtree(next(Path("out/bundles").iterdir()))
    assert again(asked) == ["export"]


def test_other_machines_get_whole_paths_and_this_one_measures_itself(asked: list[tuple[str, SweepStep]]) -> None:
    again(asked)
    here = str(Path.cwd())
    for _, step in asked:
        option = dict(zip(step.words, step.words[1:], strict=False))
        assert option["--out"].startswith(here)
        assert step.words[1].startswith(here)
        if step.words[0] == "export":
            assert option["--calibrate"] == f"{here}/text.txt"
            assert option["--recipe"] in (f"{here}/own.toml", "4bit")
    engines = {(step.words[0], step.words[step.words.index("--device") + 1]): name for name, step in asked[2:]}
    assert engines == {("bench", "host"): "pool", ("bench", "adb:PHONE"): "ray"}
    assert {name for name, step in asked if step.words[0] == "export"} == {"ray"}


def test_rows_keep_the_words_of_the_specification(asked: list[tuple[str, SweepStep]]) -> None:
    rows = sweep("grid.toml", "out").rows
    assert {(row.model, row.recipe) for row in rows} == {("model", "own.toml"), ("model", "4bit")}
