"""What the caller gives stands above the recipe, and edgec's kernels give way only where there is no compiler.

Where an export is the first to need the engine, its compilation is a stage, and the time left counts it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.devices.targets import load_target
from edgec.engine.compile.build import RunnerBuild
from edgec.errors import InputError, ToolError
from edgec.exporter.assemble.assemble import _generation_config
from edgec.exporter.options import ExportOptions
from edgec.exporter.progress import STAGE_SHARES, Event, Progress, shares_with_engine
from edgec.exporter.recipes.file import load_recipe, recipe_names
from edgec.exporter.resolve import resolved
from edgec.exporter.resolve.recipe_choice import load_asked_recipe, with_kernels
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.resolve.target_choice import in_format
from edgec.runtime_py.engines import choice

TARGETS = {
    "xnnpack": load_target("host"),
    "coreml": load_target("iphone"),
    "coreai": in_format(load_target("iphone"), "aimodel"),
}


@pytest.mark.parametrize("backend", TARGETS)
@pytest.mark.parametrize("name", recipe_names())
def test_given_budgets_stand_above_the_recipes(name: str, backend: str) -> None:
    target = TARGETS[backend]
    assert target.backend == backend
    own = load_asked_recipe(ExportOptions("m", recipe=name), target).budgets
    assert load_asked_recipe(ExportOptions("m", recipe=name, budgets={"kl_mean": 7.0}), target).budgets == {
        **own,
        "kl_mean": 7.0,
    }


@pytest.fixture
def engine_fails(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ToolError("The engine is not there.", code=request.param)

    monkeypatch.setattr(choice, "library", refuse)


@pytest.mark.parametrize("engine_fails", ["E311"], indirect=True)
@pytest.mark.usefixtures("engine_fails")
def test_without_a_compiler_standard_kernels_are_used_and_named() -> None:
    resolved = resolve_options(ExportOptions("examples/tiny-stories"))
    assert resolved.request.recipe.kernels == "standard"
    assert "no C++ compiler" in resolved.target_choice
    with pytest.raises(ToolError, match="E311"):
        with_kernels(load_recipe("4bit"), "edgec")


@pytest.mark.parametrize("engine_fails", ["E301", "E312"], indirect=True)
@pytest.mark.usefixtures("engine_fails")
def test_a_broken_engine_is_an_error_and_never_a_slower_bundle(request: pytest.FixtureRequest) -> None:
    with pytest.raises(ToolError, match=request.node.callspec.params["engine_fails"]):
        with_kernels(load_recipe("4bit"))
    assert with_kernels(load_recipe("4bit"), "standard").kernels == "standard"


def events_of(monkeypatch: pytest.MonkeyPatch, build: Callable[..., RunnerBuild]) -> list[Event]:
    seen: list[Event] = []
    monkeypatch.setattr(resolved, "find_build", lambda: None)
    monkeypatch.setattr(resolved, "build_runner", build)
    progress = Progress(seen.append)
    progress.enter("resolve")
    resolved.compile_engine(progress)
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
    monkeypatch.setattr(resolved, "find_build", lambda: RunnerBuild(Path()))
    progress = Progress()
    resolved.compile_engine(progress)
    assert progress.shares == STAGE_SHARES and not progress.seconds


def test_a_wrong_name_is_told_before_the_engine_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(compiled: Callable[[int, int], None]) -> RunnerBuild:
        raise AssertionError("nothing is compiled for a model that is not there")

    monkeypatch.setattr(resolved, "find_build", lambda: None)
    monkeypatch.setattr(resolved, "build_runner", never)
    with pytest.raises(InputError, match="no-such-folder"):
        resolve_options(ExportOptions("./no-such-folder"), Progress())


def test_shares_are_a_whole() -> None:
    for shares in (STAGE_SHARES, shares_with_engine()):
        assert sum(shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("stored", "expected"), [(None, [1, 2]), ({"top_k": 4}, [1, 2]), ({"eos_token_id": 0}, [0, 2])]
)
def test_end_tokens_are_found_wherever_the_model_names_them(
    stored: dict[str, int] | None, expected: list[int], tiny_folder: Path, tmp_path: Path
) -> None:
    """config.json names 1, the tokenizer 2; its chat template ends an answer with 2."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 1}))
    (folder / "generation_config.json").unlink()
    if stored is not None:
        (folder / "generation_config.json").write_text(json.dumps(stored))
    request = resolve_options(ExportOptions(folder, recipe="float", out=tmp_path / "out.edgec")).request
    written = json.loads(bytes(_generation_config(request)["generation_config.json"]))
    assert written == {**(stored or {}), "eos_token_id": expected}
