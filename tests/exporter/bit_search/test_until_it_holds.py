"""A default spends bytes until its budget holds, and only what a user asked for is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgec.bundle.findings import Rung
from edgec.bundle.manifest import MoreBits
from edgec.bundle.tried_recipe import TriedRecipe, tried_line
from edgec.errors import BudgetError, InputError
from edgec.exporter import pipeline
from edgec.exporter.bit_search import until_it_holds
from edgec.exporter.bit_search.until_it_holds import BROKEN, WantedQuality, compile_until_it_holds, wanted_quality
from edgec.exporter.options import ExportOptions
from edgec.exporter.parity.refusals import keeps_budget, refusal
from edgec.exporter.recipes.recipe import Recipe
from tests.exporter.bit_search.test_wanted_quality import CPU, LAYERS

Top1 = Callable[[float], float]
PARTS = {"a": 8.0, "b": 1.0, "c": 1.0}


def rung(recipe: Recipe, kl: float, top1: float) -> Rung:
    """The quality of a recipe, judged."""
    figures: dict[str, Any] = dict.fromkeys(("max_abs", "mean_abs", "reference_max_abs", "kl_max"), 1.0)
    names: dict[str, Any] = {"half": "quality", "stage": "quantize", "reference": "captured", "effect": "approximate"}
    judged: dict[str, Any] = {"epsilon": 0.0, "budget": dict(recipe.budgets), "gated": True, "passed": True}
    own = Rung(**names, **figures, **judged, positions=9, kl_mean=kl, top1_agreement=top1)
    return own.model_copy(update={"passed": keeps_budget(own)})


class Model:
    """A model whose divergence falls by a layer's part when the layer has 8 bits."""

    def __init__(
        self, folder: Path, kl: float, rest: float = 0.0, top1: Callable[[float], float] | None = None
    ) -> None:
        self.kl, self.rest, self.compiled = kl, rest, list[Recipe]()
        self.artifact = folder / "model.pte"
        self.artifact.write_bytes(bytes(1000))
        self.top1 = top1 or (lambda kl: 1 - kl / 2)

    def compile(self, request: Any, cache: Any, progress: Any) -> Any:
        self.compiled.append(request.recipe)
        wide = {name for name, _ in request.recipe.rules}
        kl = self.rest + self.kl * sum(part for name, part in PARTS.items() if name not in wide) / 10
        own = rung(request.recipe, kl, self.top1(kl))
        if not own.passed:
            raise refusal(own)
        return SimpleNamespace(artifact=self.artifact, rungs=(own,))


def compiled(model: Model, wanted: WantedQuality, monkeypatch: pytest.MonkeyPatch) -> tuple[MoreBits | None, Recipe]:
    found, _ = compile_until_it_holds(asked(model, monkeypatch), wanted, None, None)  # type: ignore[arg-type]
    return found.more_bits, found.recipe


def asked(model: Model, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(pipeline, "compile_model", model.compile)
    monkeypatch.setattr(until_it_holds, "_losses", lambda *_: LAYERS)
    monkeypatch.setattr(until_it_holds, "check_recipe", lambda *_: None)
    return Request(CPU, SimpleNamespace(name="host", backend="xnnpack"))


@dataclass(frozen=True)
class Request:
    """What is read of an export's request."""

    recipe: Recipe
    target: Any
    more_bits: MoreBits | None = None
    spends_bits: bool = False
    tried: tuple[TriedRecipe, ...] = ()


DEFAULT = WantedQuality(None, refuses=False)
NAMED = WantedQuality(None, refuses=False, spends=False)


def test_a_budget_that_holds_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(tmp_path, 0.1)
    told, recipe = compiled(model, DEFAULT, monkeypatch)
    assert told is None and recipe == CPU and len(model.compiled) == 1


def test_a_default_gives_bits_where_they_pay_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, recipe = compiled(model := Model(tmp_path, 0.4), DEFAULT, monkeypatch)
    assert told is not None and list(told.layers) == ["a"] and recipe.budgets == CPU.budgets
    assert told.line == "1 of 3 matrices in 8 bits: KL 0.4 -> 0.08, +5 % bytes"
    assert len(model.compiled) == 2


def test_what_was_measured_corrects_the_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, _ = compiled(model := Model(tmp_path, 0.4, rest=0.13), DEFAULT, monkeypatch)
    assert told is not None and set(told.layers) == {"a", "c"} and len(model.compiled) == 3


def test_top_tokens_count_like_the_divergence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(tmp_path, 0.19, top1=lambda kl: 1 - 1.5 * kl)
    told, _ = compiled(model, DEFAULT, monkeypatch)
    assert told is None, "0.715 of the top tokens are the 0.7 of the budget"
    told, _ = compiled(Model(tmp_path, 0.19, top1=lambda kl: 1 - 2 * kl), DEFAULT, monkeypatch)
    assert told is not None and "a" in told.layers


def test_a_default_ends_with_the_most_bits_and_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, recipe = compiled(Model(tmp_path, 0.4, rest=0.5), DEFAULT, monkeypatch)
    assert told is not None and len(told.layers) == 3 and told.missed_budget == 0.2
    assert told.line.endswith("over the 0.2 that was wanted, and the most bits that this target holds")
    assert recipe.budgets == BROKEN


def test_nonsense_is_refused_even_from_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BudgetError) as caught:
        compiled(Model(tmp_path, 0.4, rest=1.2), DEFAULT, monkeypatch)
    assert caught.value.code == "E201", "40 % of the top tokens"


def test_a_wanted_divergence_is_reached_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, recipe = compiled(Model(tmp_path, 0.4), WantedQuality(0.03, refuses=True), monkeypatch)
    assert told is not None and told.kl_after <= 0.03 and recipe.budgets["kl_mean"] == 0.03
    with pytest.raises(BudgetError) as caught:
        compiled(Model(tmp_path, 0.4, rest=0.05), WantedQuality(0.03, refuses=True), monkeypatch)
    assert caught.value.code == "E821" and "--max-kl 0.053" in caught.value.fix


def test_a_recipe_that_was_named_is_kept_and_its_miss_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(tmp_path, 0.4)
    request = asked(model, monkeypatch)
    found, _ = compile_until_it_holds(request, NAMED, None, None)  # type: ignore[arg-type]
    assert found.more_bits is None and found.recipe.rules == request.recipe.rules and len(model.compiled) == 2
    (tried,) = found.tried
    assert tried.recipe == found.recipe.name
    assert "kept, since it was named; --max-kl" in tried_line(found.tried, found.recipe.name)
    with pytest.raises(BudgetError) as caught:
        compiled(Model(tmp_path, 2.5), NAMED, monkeypatch)
    assert caught.value.code == "E201", "nonsense"


def test_only_what_nobody_asked_for_is_a_default(tmp_path: Path) -> None:
    source = SimpleNamespace(kind="decoder", trained=True)
    request: Any = SimpleNamespace(source=source, recipe=CPU)
    assert wanted_quality(ExportOptions("m"), request) == DEFAULT
    assert wanted_quality(ExportOptions("m", recipe="4bit"), request) == NAMED
    own: Any = SimpleNamespace(source=source, recipe=replace(CPU, budgets={"kl_mean": 0.2}))
    assert wanted_quality(ExportOptions("m", recipe=tmp_path / "own.toml"), own) is None, "its own limit"
    assert wanted_quality(ExportOptions("m", recipe="4bit", budgets={"kl_mean": 0.1}), own) is None
    assert wanted_quality(ExportOptions("m", budgets={"kl_mean": 0.1}), request) is None
    assert wanted_quality(ExportOptions("m", target_bits=4.5), request) is None
    assert wanted_quality(ExportOptions("m", recipe="4bit", max_kl=0.1), request) == WantedQuality(0.1, refuses=True)
    untrained: Any = SimpleNamespace(source=SimpleNamespace(kind="decoder", trained=False), recipe=CPU)
    assert wanted_quality(ExportOptions("m"), untrained) is None
    for options, asked, code in (
        (ExportOptions("m", max_kl=0.1, target_bits=4.5), request, "E822"),
        (ExportOptions("m", max_kl=0.1, budgets={"kl_mean": 0.2}), request, "E822"),
        (ExportOptions("m", max_kl=0.1), untrained, "E823"),
    ):
        with pytest.raises(InputError) as caught:
            wanted_quality(options, asked)
        assert caught.value.code == code
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="not a divergence"):
            ExportOptions("m", max_kl=wrong).check()
