"""One exported decoder with rings, for what its tokens are and for what its saved state is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

RING_FAMILY = "gemma3_text"


@pytest.fixture(scope="session")
def ring_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RING_FAMILY in float, with prefill chunks of 16. Read only."""
    import edgec
    from edgec.exporter.recipes.file import load_recipe
    from tests.families import FAMILIES, save

    folder = tmp_path_factory.mktemp("rings")
    model = save(next(family for family in FAMILIES if family.name == RING_FAMILY), folder / "model")
    recipe = replace(load_recipe("float"), prefill_chunk=16)
    return edgec.export(model, recipe=recipe, out=folder / "x.edgec", context=128)
