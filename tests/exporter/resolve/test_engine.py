"""Where an export is the first to need the engine, its compilation is a stage, and the time left counts it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.devices.runner.build import RunnerBuild
from edgec.errors import ToolError
from edgec.exporter.progress import STAGE_SHARES, Event, Progress, shares_with_engine
from edgec.exporter.resolve import engine


def events_of(monkeypatch: pytest.MonkeyPatch, build: Callable[..., RunnerBuild]) -> list[Event]:
    seen: list[Event] = []
    monkeypatch.setattr(engine, "find_build", lambda: None)
    monkeypatch.setattr(engine, "build_runner", build)
    progress = Progress(seen.append)
    progress.enter("resolve")
    engine.compile_engine(progress)
    progress.enter("capture")
    progress.finish()
    assert set(progress.seconds) == {"resolve", "engine", "capture"}
    return seen


def compiling(compiled: Callable[[int, int], None]) -> RunnerBuild:
    for done in range(5):
        compiled(done, 4)
    return RunnerBuild(Path())


def test_files_are_counted_and_the_bar_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = events_of(monkeypatch, compiling)
    compiled = [event for event in seen if event.stage == "engine"]
    assert [event.fraction for event in compiled] == [0.0, 0.0, 0.25, 0.5, 0.75, 1.0]
    assert compiled[-1].detail.startswith("4 of 4 files") and compiled[-1].eta_s is not None
    overall = [event.overall for event in seen]
    assert overall == sorted(overall) and overall[-1] == 1.0
    assert next(event for event in seen if event.stage == "capture").overall > 0.85


def test_a_machine_without_a_compiler_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(compiled: Callable[[int, int], None]) -> RunnerBuild:
        raise ToolError("no compiler", code="E311")

    assert events_of(monkeypatch, fail)[-1].stage == "done"


def test_a_compiled_engine_is_no_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find_build", lambda: RunnerBuild(Path()))
    progress = Progress()
    engine.compile_engine(progress)
    assert progress.shares == STAGE_SHARES and not progress.seconds


def test_shares_are_a_whole() -> None:
    for shares in (STAGE_SHARES, shares_with_engine()):
        assert sum(shares.values()) == pytest.approx(1.0)
