"""Sweeps: the grid, what is resumed, what a failure does, the table and its plot. Most steps are made up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from edgec.bundle.findings import Rung
from edgec.bundle.folder import write_bundle
from edgec.errors import InputError
from edgec.exporter.sweep import sweep as sweep_module
from edgec.exporter.sweep.engines import PoolEngine
from edgec.exporter.sweep.pareto import pareto_front
from edgec.exporter.sweep.spec import command_options, read_spec
from edgec.exporter.sweep.step import Done, SweepStep, run_step
from edgec.exporter.sweep.sweep import sweep
from tests.runtime_py.tiny_decoder import manifest

SPEC = """
models = ["m"]
recipes = ["4bit", "float"]
targets = ["host", "broken"]
devices = ["host", "adb:PHONE"]
[export]
context = 64
[bench]
prompt-tokens = 8
"""
KL = {"4bit": 0.02, "float": 0.001}


def rung(kl: float) -> Rung:
    numbers: dict[str, Any] = {
        "max_abs": 1.0,
        "mean_abs": 0.1,
        "reference_max_abs": 2.0,
        "kl_max": kl,
        "top1_agreement": 0.9,
    }
    return Rung(
        half="quality",
        stage="artifact",
        reference="captured",
        effect="approximate",
        positions=9,
        kl_mean=kl,
        epsilon=0.1,
        budget={},
        gated=True,
        passed=True,
        **numbers,
    )


class MadeUp:
    """An engine whose exports write small bundles and whose measurements are known."""

    def __init__(self) -> None:
        self.steps: list[SweepStep] = []
        self.batches: list[list[str]] = []

    def run(self, steps: Sequence[SweepStep]) -> Iterator[Done]:
        self.batches.append([step.words[0] for step in steps])
        for step in steps:
            self.steps.append(step)
            yield self._done(step)

    def _done(self, step: SweepStep) -> Done:
        option = dict(zip(step.words, step.words[1:], strict=False))
        if step.words[0] == "export":
            if option["--target"] == "broken":
                return Done(step.key, {}, {"code": "E117", "what": "No.", "why": "it is broken"})
            info = manifest().model.model_copy(update={"trained": True})
            recipe = option["--recipe"]
            out = Path(option["--out"])
            write_bundle(out, manifest(model=info, parity=[rung(KL[recipe])]), {"model.pte": b"x" * 100}, True)
            return Done(step.key, {"bundle": str(out)}, None)
        speed = 20.0 if option["--device"] == "host" else 40.0
        figures = [{"name": "decode", "median": speed}, {"name": "TTFT", "median": 7.0}]
        return Done(step.key, {"figures": figures, "simulated": False}, None)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    engine = MadeUp()
    monkeypatch.setattr(sweep_module, "engine_named", lambda name, workers: engine)
    return engine


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(SPEC)
    return path


def test_a_failure_stops_nothing_else(made_up: MadeUp, spec: Path, tmp_path: Path) -> None:
    result = sweep(spec, tmp_path / "out")
    assert len(result.rows) == 8 and len(result.failed) == 4
    assert {row.target for row in result.failed} == {"broken"} and result.failed[0].error_code == "E117"
    good = {(row.recipe, row.device): row for row in result.rows if row.status == "measured"}
    assert good["4bit", "host"].decode_tokens_per_s == 20.0 and good["4bit", "adb:PHONE"].decode_tokens_per_s == 40.0
    assert (good["float", "host"].kl_mean_nats, good["float", "host"].artifact_bytes) == (0.001, 100)
    assert good["4bit", "host"].peak_rss_mb is None


def test_options_reach_the_commands_and_devices_are_not_shared(made_up: MadeUp, spec: Path, tmp_path: Path) -> None:
    sweep(spec, tmp_path / "out")
    exports = [step for step in made_up.steps if step.words[0] == "export"]
    assert len(exports) == 4 and all("--context" in step.words for step in exports)
    assert all("--prompt-tokens" in step.words for step in made_up.steps if step.words[0] == "bench")
    assert made_up.batches == [["export"] * 4, ["bench"], ["bench"], ["bench"], ["bench"]]


def test_what_ended_well_is_not_run_again(made_up: MadeUp, spec: Path, tmp_path: Path) -> None:
    first = sweep(spec, tmp_path / "out")
    done = len(made_up.steps)
    again = sweep(spec, tmp_path / "out")
    assert [step.words[0] for step in made_up.steps[done:]] == ["export", "export"]
    assert again.rows == first.rows
    spec.write_text(SPEC.replace("prompt-tokens = 8", "prompt-tokens = 9"))
    done = len(made_up.steps)
    sweep(spec, tmp_path / "out")
    assert [step.words[0] for step in made_up.steps[done:]] == ["export", "export", *["bench"] * 4]


def test_the_table_and_the_plot(made_up: MadeUp, spec: Path, tmp_path: Path) -> None:
    result = sweep(spec, tmp_path / "out")
    lines = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert len(lines) == 8 and lines[0]["decode_tokens_per_s"] == 20.0
    svg = ElementTree.parse(tmp_path / "out" / "pareto.svg")
    assert len([node for node in svg.iter() if node.tag.endswith("circle")]) == 2 + 4 + 4
    if (tmp_path / "out" / "results.parquet") in result.files:
        from pyarrow import parquet

        table = parquet.read_table(tmp_path / "out" / "results.parquet").to_pylist()
        assert table == lines


def test_the_front_holds_what_nothing_beats() -> None:
    points = [(1.0, 5.0), (2.0, 3.0), (3.0, 4.0), (4.0, 1.0), (2.0, 9.0)]
    assert pareto_front(points) == [(1.0, 5.0), (2.0, 3.0), (4.0, 1.0)]
    assert pareto_front([(10.0, 2.0), (20.0, 3.0), (5.0, 1.0), (6.0, 2.5)], higher_is_better=True) == [
        (5.0, 1.0),
        (10.0, 2.0),
        (20.0, 3.0),
    ]
    assert pareto_front([]) == []


@pytest.mark.parametrize(
    "change",
    [
        ('models = ["m"]', ""),
        ('models = ["m"]', 'models = "m"'),
        ("[bench]", "[bnch]"),
        ("context = 64", 'out = "x"'),
        ("context = 64", "context = [1]"),
        ("models", "[["),
    ],
)
def test_bad_specifications(spec: Path, change: tuple[str, str]) -> None:
    spec.write_text(SPEC.replace(*change))
    with pytest.raises(InputError, match="E560"):
        read_spec(spec)


def test_a_device_that_is_none(spec: Path) -> None:
    spec.write_text(SPEC.replace("adb:PHONE", "toaster"))
    with pytest.raises(InputError, match="E170"):
        read_spec(spec)


def test_options_as_words() -> None:
    assert command_options((("context", 64), ("force", True), ("keep", False))) == ["--context", "64", "--force"]


@pytest.mark.long
def test_steps_end_as_data() -> None:
    missing = run_step(SweepStep("k", ("inspect", "/nowhere/at/all"), 60.0))
    assert missing.error is not None and missing.error["code"].startswith("E1")
    slow = run_step(SweepStep("k", ("doctor",), 0.01))
    assert slow.error is not None and slow.error["code"] == "E561"


def test_a_step_that_cannot_be_started_ends_as_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    done = run_step(SweepStep("k", ("doctor",), 60.0))
    assert done.error is not None and done.error["code"] == "E561" and "/nowhere/python" in done.error["why"]


def test_the_pool_gives_every_end(monkeypatch: pytest.MonkeyPatch) -> None:
    said: Callable[[SweepStep], Done] = lambda step: Done(step.key, {"words": list(step.words)}, None)  # noqa: E731
    monkeypatch.setattr("edgec.exporter.sweep.engines.run_step", said)
    steps = [SweepStep(str(i), ("doctor",), 1.0) for i in range(5)]
    ends: list[Any] = list(PoolEngine(2).run(steps))
    assert {done.key for done in ends} == {"0", "1", "2", "3", "4"}
