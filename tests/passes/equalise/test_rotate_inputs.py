from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.ir.program import Dynamic, Program
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import nodes_of, run_pass, run_passes
from edgec.passes.equalise.rotate_inputs import INPUT_ROTATION, RotateInputs, block_of

aten = torch.ops.aten
WIDTH = 64


class _Reader(nn.Module):
    """Three layers that read one value, and a narrow one that reads their sum: [1, T, 64] to [1, T, 8]."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, 8)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.a(x) + self.b(x) * self.c(x))
        return result


def _tokens(count: int) -> Tensor:
    """Random values, of which one channel stands out as those of BERT's hidden states do."""
    x = torch.randn(1, count, WIDTH, generator=torch.Generator().manual_seed(count))
    x[..., 7] *= 20
    return x


@pytest.fixture(scope="module")
def program() -> Program:
    captured = capture_module(_Reader(), {"x": _tokens(5)}, tokens=Dynamic("T", 1, 32))
    return run_pass(captured, RemoveNoops())


def test_rotation_is_exact_at_every_length(program: Program) -> None:
    rotated = run_pass(program, RotateInputs())
    for count in (2, 5, 32):
        (wanted,), (got,) = program.graph(_tokens(count)), rotated.graph(_tokens(count))
        # Sums in another order, of values up to 60.
        assert torch.allclose(got, wanted, atol=2e-4)


def test_an_input_is_rotated_once_and_narrow_layers_are_left(program: Program) -> None:
    rotated = run_pass(program, RotateInputs())
    assert len(nodes_of(rotated.graph, aten.linear.default)) == 4 + 1
    (matrix,) = [name for name, _ in rotated.graph.named_parameters() if INPUT_ROTATION in name]
    assert matrix == f"{INPUT_ROTATION}_16"
    again = run_pass(rotated, RotateInputs())
    assert [node.target for node in again.graph.graph.nodes] == [node.target for node in rotated.graph.graph.nodes]


@pytest.mark.parametrize(
    ("width", "rows", "block"),
    [
        (384, 1152, 128),
        (384, 384, 32),
        (1536, 384, 32),
        (768, 3072, 256),
        (2048, 9999, 256),
        (384, 64, 0),
        (30, 999, 0),
    ],
)
def test_blocks_cost_at_most_an_eighth(width: int, rows: int, block: int) -> None:
    assert block_of(width, rows) == block
    assert width * block <= width * rows / 8 and (not block or width % block == 0)


def test_rounded_inputs_lose_less(program: Program) -> None:
    kept = ((f"{INPUT_ROTATION}*", None),)
    plain, turned = (run_passes(program, [*before, Quantize(rules=kept)]) for before in ([], [RotateInputs()]))
    (wanted,) = program.graph(_tokens(32))
    errors = [float((each.graph(_tokens(32))[0] - wanted).norm()) for each in (plain, turned)]
    # A channel of 20 deviations costs 20 / 3 of the steps of the others; blocks of 16 leave about a third of that.
    assert errors[1] < 0.7 * errors[0]
