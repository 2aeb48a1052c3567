"""Every byte of a package is accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.backends.coreml.package import write_package
from edgec.backends.coreml.stored import package_layout
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.static_cache import StaticCache
from tests.passes.static_methods import CONTEXT, cached, methods

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("package") / "model.mlpackage"
    write_package(methods(cached("llama"), [PositionTables(CONTEXT), StaticCache(), Fp16SafeNorm()]), path)
    return path


def test_program_padding_and_constants_make_the_whole(package: Path) -> None:
    layout = package_layout(package)
    files = sum(file.stat().st_size for file in package.rglob("*") if file.is_file())
    stored = sum(run.bytes for run in layout.stored)
    assert layout.artifact_bytes == files
    assert layout.program_bytes + layout.padding_bytes + stored == files
    assert 0 <= layout.padding_bytes < 128 * (len(layout.stored) + 2)


def test_both_functions_read_one_copy_of_a_weight(package: Path) -> None:
    gate = [run for run in package_layout(package).stored if run.shape == (96, 64)]
    # Three layers with two matrices of that shape each; prefill and decode share them.
    assert len(gate) == 6
    assert {run.dtype for run in gate} == {"fp16"}
