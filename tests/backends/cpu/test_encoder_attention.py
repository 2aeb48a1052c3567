"""The kernels of attention in encoder-decoders, executed in ExecuTorch's runtime, against their meaning in torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgec.backends.cpu.lower import lower_methods
from edgec.ir import encoder_operators
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.runtime_py.engines.open_artifact import TorchMethod

# Both sides compute in float32 and sum up to 300 products in another order.
TOLERANCE = 1e-5
HEADS, KV_HEADS, WIDTH = 6, 3, 16


class Encoder(nn.Module):
    def forward(self, q: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        attend = encoder_operators.ENCODER_ATTENTION
        return attend(q, keys, values, None, 0.3), attend(q, keys, values, bias, 0.3)


class Biased(nn.Module):
    def forward(self, q: Tensor, positions: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
        result: Tensor = encoder_operators.BIASED_ATTENTION(q, positions, keys, values, None, None, bias, 0.3)
        return result


def lowered(module: nn.Module, inputs: dict[str, Tensor], low: dict[str, dict[int, str]], folder: Path) -> TorchMethod:
    """A module of one operator as an artifact; ``low`` names the dimensions that vary."""
    shapes = {
        name: tuple(Dynamic(low[name][i], 1, 300) if i in low.get(name, {}) else d for i, d in enumerate(value.shape))
        for name, value in inputs.items()
    }
    dims = {name: {i: torch.export.Dim(d, min=2, max=300) for i, d in low.get(name, {}).items()} for name in inputs}
    exported = torch.export.export(module, tuple(inputs.values()), dynamic_shapes=dims, strict=False)
    graph = exported.module(check_guards=False)
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    types = tuple(TensorType(name, inputs[name].dtype, shape) for name, shape in shapes.items())
    program = Program(torch.fx.GraphModule(graph, graph.graph), Interface(types, ()))
    path = folder / "model.pte"
    path.write_bytes(lower_methods({"forward": program}).artifact)
    return TorchMethod(path)


def drawn(queries: int, keys: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(queries * keys)
    return {
        "q": torch.randn(1, queries, HEADS, WIDTH, generator=generator),
        "keys": torch.randn(1, keys, KV_HEADS, WIDTH, generator=generator).to(dtype),
        "values": torch.randn(1, keys, KV_HEADS, WIDTH, generator=generator).to(dtype),
        "bias": torch.randn(1, HEADS, queries, keys, generator=generator),
    }


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_every_query_sees_every_key(dtype: torch.dtype, tmp_path: Path) -> None:
    low = {"q": {1: "S"}, "keys": {1: "T"}, "values": {1: "T"}, "bias": {2: "S", 3: "T"}}
    method = lowered(Encoder(), drawn(8, 9, dtype), low, tmp_path)
    for queries, keys in ((1, 1), (1, 300), (7, 5), (37, 37), (150, 299)):
        inputs = drawn(queries, keys, dtype)
        for got, wanted in zip(method(list(inputs.values())), Encoder()(**inputs), strict=True):
            torch.testing.assert_close(got, wanted, atol=TOLERANCE, rtol=0)


@pytest.mark.long
def test_a_bias_is_added_to_what_a_position_sees(tmp_path: Path) -> None:
    def case(start: int, count: int) -> dict[str, Tensor]:
        inputs = drawn(count, 64)
        return {"q": inputs["q"], "positions": torch.arange(start, start + count), **inputs}

    low = {"q": {1: "S"}, "positions": {0: "S"}, "bias": {2: "S"}}
    method = lowered(Biased(), case(0, 8), low, tmp_path)
    for start, count in ((0, 1), (0, 40), (5, 7), (63, 1), (10, 54)):
        inputs = case(start, count)
        torch.testing.assert_close(method(list(inputs.values()))[0], Biased()(**inputs), atol=TOLERANCE, rtol=0)
