"""The engine reads the matrices of a mapped artifact before a call comes to them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from edgec.backends.cpu.lower import lower
from edgec.bundle.pte_layout import NAMED, read_layout
from edgec.runtime_py.engines.engine import EngineModel
from tests.backends.cpu.linear.programs import quantised
from tests.engine.test_laid_out_file import OWN

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux alone reads ahead of the kernels")
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder whose matrices are far larger than the 64 KB that a page fault maps."""
    path = tmp_path_factory.mktemp("wide") / "model.pte"
    path.write_bytes(lower(quantised(intermediate_size=16384), block_rows=OWN).artifact)
    return path


def mapped_bytes(artifact: Path) -> int:
    """Bytes of the artifact's mapping that this process reads without a page fault."""
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        field, *rest = line.split()
        if not field.endswith(":"):
            ours = rest[-1] == str(artifact)
        elif field == "Rss:" and ours:
            total += int(rest[0]) * 1024
    return total


@pytest.mark.slow
def test_matrices_are_in_memory_before_the_first_call(artifact: Path) -> None:
    # Of the named data some hundreds of bytes are norms' weights, which nothing reads ahead.
    matrices = 0.99 * sum(run.bytes for run in read_layout(artifact).stored if run.place == NAMED)
    model = EngineModel(artifact)
    deadline = time.monotonic() + PATIENCE_S
    while mapped_bytes(artifact) < matrices and time.monotonic() < deadline:
        time.sleep(0.01)
    assert mapped_bytes(artifact) >= matrices > 1.8e6
    assert model.info.sessions == 0


@pytest.mark.long
def test_a_model_is_closed_while_its_file_is_read(artifact: Path) -> None:
    for _ in range(20):
        EngineModel(artifact)
    assert mapped_bytes(artifact) == 0
