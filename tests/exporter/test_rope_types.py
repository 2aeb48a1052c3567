"""Every type of rotary positions through the whole of ``edgec.export``, before, across and after its limits.

Prompts and later calls end on both sides of the limit; wherever a call ends, the artifact's logits are those that
transformers has for the text so far, read in one call.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import edgec
from edgec.bundle.folder import open_bundle
from edgec.exporter.recipes.file import load_recipe
from edgec.runtime_py.sessions.session import Session
from tests.exporter.rope_models import BY_NAME, CONTEXT, FIRST, MODELS, RopeModel, text, whole

pytestmark = pytest.mark.long

BEFORE, AFTER = (7, FIRST - 1, FIRST), (FIRST + 1, FIRST + 2, FIRST + 22, CONTEXT - 1, CONTEXT)
# Sums in another order, float32 throughout; logits reach 30 and another set of frequencies moves them by several.
TOLERANCE = 1e-3
# The static form whose arithmetic is float32 here.
ONNX = "onnx"
CHUNK = 16
QUICK = ("yarn", "longrope beside the parameters")
STATIC = ("dynamic", "yarn, attention_factor", "longrope in some layers", "queries scaled by position", *QUICK)


def export(model: RopeModel, folder: Path, context: int | None, format: str) -> Path:
    recipe = replace(load_recipe("float"), prefill_chunk=CHUNK, kv_dtype="float32")
    out = folder / f"{context}.edgec"
    source = folder if (folder / "config.json").is_file() else model.save(folder)
    return edgec.export(source, recipe=recipe, out=out, context=context, format=format)


def assert_like_transformers(bundle: Path, model: RopeModel, ends: tuple[int, ...], short: bool) -> None:
    """Compare after every end of a call; ``short``: also before the limit, where transformers has the first set."""
    session, own, tokens, start = Session(bundle), model.model(), text(), 0
    for end in ends:
        logits = torch.as_tensor(session.prefill(tokens[start:end], start))
        start = end
        if short or end > FIRST:
            torch.testing.assert_close(logits, whole(own, tokens[:end]), atol=TOLERANCE, rtol=0, msg=f"after {end}")


def quick(names: tuple[str, ...]) -> list[object]:
    """Some models; all but a few of them only among the slow tests."""
    return [BY_NAME[name] if name in QUICK else pytest.param(BY_NAME[name], marks=pytest.mark.slow) for name in names]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("model", quick(tuple(BY_NAME)), ids=lambda model: model.name)
def test_on_a_cpu(model: RopeModel, tmp_path: Path) -> None:
    check(model, tmp_path, "pte")


@pytest.mark.sweep(1)
@pytest.mark.parametrize("model", quick(STATIC), ids=lambda model: model.name)
def test_in_fixed_shapes(model: RopeModel, tmp_path: Path) -> None:
    check(model, tmp_path, ONNX)


def check(model: RopeModel, folder: Path, format: str) -> None:
    bundle = export(model, folder, None, format)
    manifest = open_bundle(bundle).manifest
    assert manifest.limits and manifest.limits.context == (model.first or CONTEXT)
    ends = (*BEFORE, *AFTER) if manifest.limits.context == CONTEXT else BEFORE
    assert_like_transformers(bundle, model, ends, short=True)
    assert bool(manifest.context_note) == (model.first is not None and model.others)
    if model.first and model.others:
        longer = export(model, folder, CONTEXT, format)
        assert "at every position" in open_bundle(longer).manifest.context_note
        assert_like_transformers(longer, model, (*BEFORE, *AFTER), short=False)


def test_every_model_is_a_case() -> None:
    assert set(STATIC) <= set(BY_NAME) and len(BY_NAME) == len(MODELS)
