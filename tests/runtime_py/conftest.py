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


@pytest.fixture(scope="session")
def four_bits(tiny_folder: Path, stage_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a random two-layer Llama with 4-bit matrices for edgec's kernels. Read only."""
    from tests.runtime_py.adapters.loras import RECIPE, exported

    return exported(tiny_folder, tmp_path_factory.mktemp("four-bits"), RECIPE)
