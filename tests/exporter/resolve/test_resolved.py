"""What the caller gives stands above the recipe, and edgec's kernels give way only where there is no compiler."""

from __future__ import annotations

import pytest

from edgec.devices.targets import load_target
from edgec.errors import ToolError
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.file import load_recipe, recipe_names
from edgec.exporter.resolve.resolved import _load_recipe, resolve_options, with_kernels
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
    own = _load_recipe(ExportOptions("m", recipe=name), target).budgets
    assert _load_recipe(ExportOptions("m", recipe=name, budgets={"kl_mean": 7.0}), target).budgets == {
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
