"""Mixtures of experts in every number of bits: what a bundle says is what its rounded graph says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.coverage_parts.check import COLUMNS, check
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.text import recipe_text
from edgec.ir.weight_scheme import WeightScheme

GROUPED = {f"{bits} bits, groups of {group}": (bits, group) for bits in (2, 3, 4) for group in (64, 128)}
BY_ROW = {f"{bits} bits per channel": (bits, 0) for bits in (2, 3, 4)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["olmoe", "gpt_oss"])
@pytest.mark.parametrize("recipe", ["3bit", "balanced2", "8bit"])
def test_recipes_say_what_their_graph_says(kind: str, recipe: str) -> None:
    outcome = check(kind, replace(COLUMNS["host 4bit"], title=recipe, recipe=recipe))
    assert outcome.result == "equal", outcome.reason


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [*GROUPED, *BY_ROW])
def test_other_groups_say_what_their_graph_says(scheme: str, tmp_path: Path) -> None:
    bits, group = (GROUPED | BY_ROW)[scheme]
    weights = WeightScheme(bits, group, scale_bits=16 if group else 32)
    own = tmp_path / "own.toml"
    own.write_text(recipe_text(replace(load_recipe("4bit"), weights=weights)))
    outcome = check("olmoe", replace(COLUMNS["host 4bit"], title=scheme, recipe=str(own)))
    assert outcome.result == "equal", outcome.reason
