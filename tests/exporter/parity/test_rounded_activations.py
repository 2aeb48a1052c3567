"""A bundle that rounds activations otherwise than its graph is equal where each was near and all else is the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchao.quantization.quant_primitives import MappingType, choose_qparams_affine, dequantize_affine, quantize_affine

from benchmarks.coverage_parts.rounded import with_activations
from edgec.exporter.parity.probe_calls import ProbeCall
from edgec.exporter.parity.rounded_activations import NEAR, Followed, follow
from edgec.ir.attributes import attribute
from edgec.ir.graph_run import run_calls
from edgec.ir.program import Interface, Program, TensorType

TOKENS, WIDTH, VOCABULARY = 40, 64, 32
TIE, NOISE = 1e-5, 3e-6
FOUND = ("different", "from token 3 on")


class Layer(nn.Module):
    """Two matrices, whose inputs are rounded to 8 bits, if at all; what the first one makes is read once more."""

    def __init__(self, rounds: bool) -> None:
        super().__init__()
        drawn = torch.Generator().manual_seed(0)
        self.first = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=drawn) / 8)
        self.second = nn.Parameter(torch.randn(VOCABULARY, WIDTH, generator=drawn))
        self.rounds = rounds

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.linear(self.rounded(x * 2), self.first)
        return (nn.functional.linear(self.rounded(y), self.second) + y[:, :VOCABULARY]).unsqueeze(0)

    def rounded(self, x: Tensor) -> Tensor:
        return in_8_bits(x) if self.rounds else x


def in_8_bits(x: Tensor) -> Tensor:
    block = (1, WIDTH)
    scale, zero = choose_qparams_affine(x, MappingType.ASYMMETRIC, block, torch.int8)
    integers = quantize_affine(x, block, scale, zero, torch.int8)
    rounded: Tensor = dequantize_affine(integers, block, scale, zero, torch.int8)
    return rounded


def program(rounds: bool = True) -> Program:
    graph: Any = torch.export.export(Layer(rounds), (inputs(),), strict=True).module(check_guards=False)
    given = TensorType("x", torch.float32, (TOKENS, WIDTH))
    return Program(graph, Interface((given,), (TensorType("logits", torch.float32, (1, TOKENS, VOCABULARY)),)))


def inputs() -> Tensor:
    return torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))


def noise(size: float, rows: int = WIDTH) -> Tensor:
    return size * torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(2))


def followed(**moved: Tensor) -> Followed:
    """The graph beside an artifact whose matrices are others."""

    def execute(telling: Program, calls: Sequence[ProbeCall]) -> Any:
        own = {name: attribute(telling.graph, name).data.clone() for name in moved}
        for name, by in moved.items():
            attribute(telling.graph, name).data.add_(by)
        ran = run_calls(telling, [call.inputs for call in calls])
        for name, before in own.items():
            attribute(telling.graph, name).data.copy_(before)
        return ran

    with torch.no_grad():
        found = follow(program(), [ProbeCall([inputs()])], execute)
    assert found is not None
    return found


def result(found: Followed) -> tuple[str, str]:
    return with_activations(FOUND, found, found.artifact_logits.argmax(-1).tolist(), TIE)


def test_an_artifact_that_computes_the_same_is_equal() -> None:
    same = followed()
    assert [rows.shape for rows in same.apart] == [(TOKENS,)] * 2 and not any(rows.any() for rows in same.apart)
    assert torch.equal(same.logits, same.artifact_logits)
    assert result(same)[0] == "equal"


@pytest.mark.long
def test_activations_that_are_rounded_the_other_way_are_no_difference() -> None:
    found = followed(first=noise(NOISE))
    with torch.no_grad():
        (alone,) = run_calls(program(), [[inputs()]])
    largest = found.artifact_logits.abs().max()
    # Alone, the graph rounds some values to other integers; given the artifact's, only a sum's order is left.
    assert (alone[0] - found.artifact_logits).abs().max() > 1e-3 * largest
    torch.testing.assert_close(found.logits, found.artifact_logits, atol=float(1e-6 * largest), rtol=0)
    assert 0 < float(found.apart[1].max()) < NEAR
    assert result(found)[0] == "equal"
    assert with_activations(FOUND, found, [0] * TOKENS, TIE)[0] == "different", "not what the bundle said"


@pytest.mark.parametrize(
    "moved",
    [
        pytest.param({"first": noise(1e-2)}, id="activations that are computed otherwise"),
        pytest.param({"first": noise(3e-5)}, id="a little otherwise, in every row"),
        pytest.param({"first": noise(NOISE), "second": noise(0.3, VOCABULARY)}, id="a last matrix of other values"),
    ],
)
def test_a_wrong_artifact_stays_different(moved: dict[str, Tensor]) -> None:
    assert result(followed(**moved))[0] == "different"


def test_a_graph_that_rounds_nothing_has_nothing_to_follow() -> None:
    assert follow(program(rounds=False), [ProbeCall([inputs()])], lambda program, calls: []) is None
