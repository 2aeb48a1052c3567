"""GELU by tanh through XNNPACK: its own numbers, in modules and inside a decoder's delegates."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from edgec.backends.cpu import static_lowering
from edgec.backends.cpu.rewrites.tanh_gelu import write_out_tanh_gelus
from edgec.backends.cpu.static_lowering import lower_static
from edgec.exporter.capture.module import capture_module
from edgec.passes.contract import clone, nodes_of
from edgec.runtime_py.engines.open_artifact import TorchMethod

X = torch.linspace(-6, 6, 2001)[None]
GELU = torch.ops.aten.gelu.default


def test_the_numbers_stay() -> None:
    graph = clone(capture_module(nn.GELU(approximate="tanh"), (X,)).graph)
    write_out_tanh_gelus(graph)
    graph.recompile()
    assert not nodes_of(graph, GELU)
    # Six operators in float32, of values up to 6.
    torch.testing.assert_close(graph(X)[0], nn.GELU(approximate="tanh")(X), atol=2e-6, rtol=0)


def test_exact_gelu_is_left_alone() -> None:
    graph = clone(capture_module(nn.GELU(), (X,)).graph)
    write_out_tanh_gelus(graph)
    assert nodes_of(graph, GELU)


@pytest.mark.long
def test_xnnpack_computes_the_exact_one_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, worst = nn.GELU(approximate="tanh")(X), {}
    program = capture_module(nn.GELU(approximate="tanh"), (X,))
    for name in ("written out", "as it is"):
        file = tmp_path / f"{name}.pte"
        file.write_bytes(lower_static(program).artifact)
        worst[name] = float((TorchMethod(file)([X])[0] - wanted).abs().max())
        monkeypatch.setattr(static_lowering, "write_out_tanh_gelus", lambda graph: None)
    # Where the second fails, XNNPACK has learnt the keyword, and it need not be written out.
    assert worst["written out"] < 1e-5 and worst["as it is"] > 1e-4
