"""A text to train the tiny model on, and a recipe that changes everything that can be changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime_py.tiny_decoder import TEXT

RECIPE = """
description = "two bits, shared keys and values, an int8 cache"

[weights]
kind = "balanced"
group_rows = 1

[lm_head]
bits = 8
group_size = 0

[embedding]
bits = 8
group_size = 0

[cache]
dtype = "int8"

[shared_kv]
mode = "{mode}"
boundary = 1

[limits]
context = 96
prefill_chunk = 16
logit_rows = 8

[budgets]
kl_mean = 0.50
top1_agreement = 0.50
"""


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve kilobytes in paragraphs."""
    paragraphs = [f"{TEXT}{number} {TEXT[::-1]}" for number in range(60)]
    file = tmp_path_factory.mktemp("text") / "story.txt"
    file.write_text("\n\n".join(paragraphs))
    return file


@pytest.fixture(params=["reuse", pytest.param("project", marks=pytest.mark.slow)])
def recipe(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The recipe's file."""
    file = tmp_path / "everything.toml"
    file.write_text(RECIPE.format(mode=request.param))
    return file
