from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
def plain(model: Model) -> Iterator[None]:
    """Every test leaves the model saying what it would say."""
    yield
    unscripted(model)
