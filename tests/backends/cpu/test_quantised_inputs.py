"""Layers with a bias whose inputs are quantised per token, executed in ExecuTorch's runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from edgec.backends.cpu.lower import lower
from edgec.backends.cpu.regions import delegate
from edgec.errors import InputError
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import Pass, run_passes
from edgec.passes.fuse.batch_dimension import BatchDimension
from edgec.runtime_py.engines.open_artifact import TorchMethod
from tests.passes.fuse.test_batch_dimension import Block, X, captured


def rounded(*first: Pass) -> tuple[Block, Program]:
    module, program = captured()
    return module, run_passes(program, [*first, Quantize(default=WeightScheme(8, 0))])


@pytest.mark.long
@pytest.mark.parametrize(
    "first", [[], pytest.param([BatchDimension()], marks=pytest.mark.slow)], ids=["rows", "with a batch"]
)
def test_eight_bits_and_biases_go_together(first: list[Pass], tmp_path: Path) -> None:
    module, program = rounded(*first)
    (tmp_path / "model.pte").write_bytes(lower(program).artifact)
    (made,) = TorchMethod(tmp_path / "model.pte")([X])
    wanted = program.graph(X)[0]
    # An activation that lies between two of its 256 levels may go to either.
    torch.testing.assert_close(made, wanted, atol=float(wanted.abs().max()) * 0.01, rtol=0)
    torch.testing.assert_close(wanted, module(X), atol=float(wanted.abs().max()) * 0.05, rtol=0)


@pytest.mark.long
def test_what_xnnpack_refuses_is_an_error_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("no such form")

    monkeypatch.setattr(delegate, "to_backend", refuse)
    with pytest.raises(InputError, match="no such form") as refused:
        lower(rounded()[1])
    assert refused.value.code == "E723"
