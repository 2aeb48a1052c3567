"""Fixed point of models whose hidden states have huge channels, as trained ones do, and 4-bit weights in blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from edgec.backends.onnx.methods import cpu_session
from edgec.backends.onnx.translate import WHOLE_NORMS, translated
from edgec.backends.onnx.weight_file import write_models
from edgec.backends.qnn.block_scales import block_integers, packed_nibbles
from edgec.backends.qnn.fixed_point import fixed_feed, write_fixed_point
from edgec.backends.qnn.float_weights import FloatWeights, grids
from edgec.backends.qnn.htp import compile_contexts
from edgec.backends.qnn.layer_losses import layer_losses, said
from edgec.exporter.capture.module import capture_module
from edgec.ir.attributes import attribute
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.cleanup.fake_values import FakeValues
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import run_pass
from edgec.passes.static.linear_to_conv2d import LinearToConv2d

WIDTH, TOKENS, SOC = 128, 16, 69
CHANNEL, BLOCKS = WeightScheme(8, 0, activation_bits=0), WeightScheme(4, 32, activation_bits=0, scale_bits=16)
onnxruntime_tools = pytest.importorskip("onnxscript")


class Layer(nn.Module):
    """A norm and the matrix that reads it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.proj = nn.Linear(WIDTH, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        normal: Tensor = torch.ops.edgec.rms_norm(x, self.weight, 1e-5)
        result: Tensor = self.proj(normal)
        return result


def hidden(largest: float) -> Tensor:
    """Hidden states of size 4 whose first token has one huge value, as SmolLM2's have from its layer 11 on."""
    x = 4 * torch.randn(1, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
    x[0, 0, 7] = largest
    return x


def rounded(scheme: WeightScheme, x: Tensor) -> Program:
    program = run_pass(capture_module(Layer().requires_grad_(False), (x,)), Quantize((), scheme))
    return run_pass(run_pass(program, FakeValues()), LinearToConv2d())


def written(program: Program, x: Tensor, folder: Path) -> tuple[Path, Path, dict[str, Any]]:
    """The float and the fixed-point model of a program, and the inputs."""
    name = program.interface.inputs[0].name
    write_models({"main": translated(run_pass(program, FloatWeights()), "main", opset=WHOLE_NORMS)}, folder / "float")
    source, target = folder / "float" / "main.onnx", folder / "main.onnx"
    write_fixed_point(source, target, [{name: x}], grids(program), {})
    return source, target, {name: x.numpy()}


def errors(wanted: Tensor, got: Any) -> Tensor:
    """Each token's relative error."""
    difference = torch.from_numpy(np.asarray(got)).reshape(wanted.shape) - wanted
    result: Tensor = (difference.norm(dim=-1) / wanted.norm(dim=-1)).flatten()
    return result


@pytest.mark.long
@pytest.mark.parametrize("scheme", [CHANNEL, BLOCKS], ids=["channel", "blocks"])
def test_a_norm_keeps_small_values_beside_a_huge_one(scheme: WeightScheme, tmp_path: Path) -> None:
    """Squares over one 16-bit range have steps of 7,600 here, so that all of the other tokens' would be 0."""
    x = hidden(22_500.0)
    program = rounded(scheme, x)
    wanted = program.graph(x)
    wanted = wanted[0] if isinstance(wanted, tuple) else wanted
    _, target, feed = written(program, x, tmp_path)
    # The input's own step is 0.34, 2.5 % of values of size 4; the rest of the way adds 16-bit steps.
    assert float(errors(wanted, cpu_session(target).run(None, feed)[0]).max()) < 0.05
    pytest.importorskip("onnxruntime_qnn")
    (context,) = compile_contexts({target: tmp_path / "context.onnx"}, SOC)
    assert float(errors(wanted, context.run(None, feed)[0]).max()) < 0.05


@pytest.mark.long
def test_blocks_hold_the_integers_of_the_graph(tmp_path: Path) -> None:
    import onnx
    from onnx import numpy_helper

    x = hidden(10.0)
    program = rounded(BLOCKS, x)
    (grid,) = grids(program).values()
    assert grid.blocks == WIDTH // 32
    _, target, _ = written(program, x, tmp_path)
    held = {tensor.name: tensor for tensor in onnx.load(str(target)).graph.initializer}
    (integers,) = (numpy_helper.to_array(t) for name, t in held.items() if name.endswith("_blocks"))
    own = attribute(program.graph, "proj.weight_int_conv").reshape(64, WIDTH)
    assert np.array_equal(integers.astype(np.int8).reshape(own.shape), own.numpy())
    value = (own.reshape(*grid.scale.shape, -1) * grid.scale[..., None]).reshape(len(own), -1, 1, 1)
    assert torch.equal(block_integers(value, grid), own)


def test_nibbles_lie_as_onnx_reads_them() -> None:
    import onnx
    from onnx import numpy_helper

    integers = torch.tensor([[-8, 7, 0], [1, -1, 3]], dtype=torch.int8)
    tensor = onnx.TensorProto(data_type=onnx.TensorProto.INT4, dims=[2, 3], raw_data=packed_nibbles(integers))
    assert numpy_helper.to_array(tensor).astype(np.int8).tolist() == integers.tolist()
    assert packed_nibbles(torch.tensor([5], dtype=torch.int8)) == b"\x05"


@pytest.mark.long
def test_the_layer_that_loses_most_is_named(tmp_path: Path) -> None:
    x = hidden(22_500.0)
    source, target, feed = written(rounded(CHANNEL, x), x, tmp_path)
    ((name, loss),) = layer_losses(source, target, (feed, feed)).items()
    assert name == "proj" and 1e-4 < loss < 0.05
    assert not list(tmp_path.glob("shown_*"))


def test_words_name_the_worst_layer_and_the_first_that_is_lost() -> None:
    assert said({}) == ""
    assert "furthest from the graph is b, by 3.0 %" in said({"a": 0.01, "b": 0.03, "c": 0.02}).replace("%", " %")
    text = said({"a": 0.01, "b": 0.7, "c": float("inf")})
    assert "furthest from the graph is c" in text and text.endswith("the first beyond 50 %: b")


@pytest.mark.long
def test_bytes_of_states_are_those_of_their_grid() -> None:
    floats, fixed = fixed_feed({"x": torch.ones(2), "cache": torch.tensor([-1.0, 0.0, 2.0])}, {"cache": (-1.0, 2.0)})
    assert fixed["cache"].dtype == np.uint8 and fixed["cache"].tolist() == [0, 85, 255]
    assert floats["cache"].dtype == np.float32 and fixed["x"].dtype == np.float32
