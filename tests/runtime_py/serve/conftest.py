from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import edgec
from edgec.runtime_py.model import Model
from tests.runtime_py.serve.running import Running, model_of, running, unscripted


@pytest.fixture(scope="module")
def model(tiny_bundle: Path) -> Model:
    return model_of(tiny_bundle)


@pytest.fixture(scope="module")
def server(model: Model) -> Iterator[Running]:
    with running(model) as made:
        yield made


@pytest.fixture(autouse=True)
def plain(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test with a model leaves it saying what it would say; others export none."""
    model = request.getfixturevalue("model") if "model" in request.fixturenames else None
    yield
    if model is not None:
        unscripted(model)


@pytest.fixture(scope="session")
def batched_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer Llama whose sessions can be computed together. Read only."""
    from tests.tiny_llama import write_model

    folder = tmp_path_factory.mktemp("batched")
    budgets = {"kl_mean": 50.0, "top1_agreement": 0.0}
    return edgec.export(write_model(folder / "model"), recipe="4bit", out=folder / "tiny.edgec", budgets=budgets)
