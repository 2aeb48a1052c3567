"""GELU by tanh as products and a sigmoid: the same numbers, also where XNNPACK executes them."""

from __future__ import annotations

import torch
from torch import nn

from edgec.backends.xnnpack.static_lowering import lower_static
from edgec.exporter.capture.module import capture_module
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.fuse.tanh_gelu import TanhGelu
from edgec.runtime_py.engines.open_artifact import TorchMethod

X = torch.linspace(-6, 6, 2001)[None]
GELU = torch.ops.aten.gelu.default


def test_the_numbers_stay() -> None:
    program = run_pass(capture_module(nn.GELU(approximate="tanh"), (X,)), TanhGelu())
    assert not nodes_of(program.graph, GELU)
    # Six operators in float32, of values up to 6.
    torch.testing.assert_close(program.graph(X)[0], nn.GELU(approximate="tanh")(X), atol=2e-6, rtol=0)


def test_exact_gelu_is_left_alone() -> None:
    assert nodes_of(run_pass(capture_module(nn.GELU(), (X,)), TanhGelu()).graph, GELU)


def test_xnnpack_computes_the_exact_one_without_it(tmp_path: object) -> None:
    from pathlib import Path

    wanted, worst = nn.GELU(approximate="tanh")(X), {}
    captured = capture_module(nn.GELU(approximate="tanh"), (X,))
    for name, program in (("with", run_pass(captured, TanhGelu())), ("without", captured)):
        file = Path(str(tmp_path)) / f"{name}.pte"
        file.write_bytes(lower_static(program).artifact)
        worst[name] = float((TorchMethod(file)([X])[0] - wanted).abs().max())
    # The second shows why the pass exists: where it fails, XNNPACK has learnt the keyword, and the pass can go.
    assert worst["with"] < 1e-5 and worst["without"] > 1e-4
