from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime_py.tiny_decoder import built


@pytest.fixture(scope="session")
def tiny_model_dir() -> Path:
    """The float model of a random 2-layer decoder, as transformers saves it."""
    return built()[0]


@pytest.fixture(scope="session")
def tiny_bundle() -> Path:
    """Its bundle."""
    return built()[1]
