from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import nodes_of, run_pass, run_passes
from edgec.passes.static.unroll_recurrences import UnrollRecurrences
from tests.passes.static.test_merge_dimensions import program_of

BATCH, STEPS, WIDTH, HIDDEN = 3, 4, 6, 5
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class Called(nn.Module):
    """A recurrent module whose states are inputs where they are given; it returns all that torch returns, flat."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, *states: Tensor) -> Any:
        given = [] if not states else [states if len(states) > 1 else states[0]]
        flat = torch.utils._pytree.tree_leaves(self.layer(x, *given))
        return tuple(flat) if len(flat) > 1 else flat[0]


def seeded(kind: Any, *sizes: Any, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return Called(kind(*sizes, **options)).eval()


LAYERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "rnn": (nn.RNN, {}),
    "rnn with relu": (nn.RNN, {"nonlinearity": "relu"}),
    "a projected lstm": (nn.LSTM, {"proj_size": 2}),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch first": {"batch_first": True},
    "without biases": {"bias": False},
    "both directions": {"bidirectional": True, "batch_first": True},
    "stacked, both directions, without biases": {"num_layers": 3, "bidirectional": True, "bias": False},
    "stacked, with dropout in training": {"num_layers": 2, "dropout": 0.5},
}


def inputs_of(kind: Any, options: dict[str, Any], stated: bool) -> list[Tensor]:
    torch.manual_seed(1)
    first = (BATCH, STEPS) if options.get("batch_first") else (STEPS, BATCH)
    layers = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    widths = [options.get("proj_size") or HIDDEN, *([HIDDEN] if kind is nn.LSTM else [])]
    return [torch.randn(*first, WIDTH), *(torch.randn(layers, BATCH, width) for width in widths if stated)]


def check(model: nn.Module, *inputs: Tensor) -> None:
    program = run_pass(program_of(model, *inputs), RemoveNoops())
    written = run_pass(program, UnrollRecurrences())
    assert not [n for n in written.graph.graph.nodes if str(n.target).startswith(tuple(f"aten.{r}" for r in RECURRENT))]
    before, after = program.graph(*inputs), written.graph(*inputs)
    for one, other in zip(*map(torch.utils._pytree.tree_leaves, (before, after)), strict=True):
        # The same sums in another order.
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    again = run_passes(written, [UnrollRecurrences()])
    assert len(again.graph.graph.nodes) == len(written.graph.graph.nodes)


@pytest.mark.long
@pytest.mark.sweep(20)
@pytest.mark.parametrize("stated", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("asked", OPTIONS)
@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_is_written_out(name: str, asked: str, stated: bool) -> None:
    kind, more = LAYERS[name]
    options = {**OPTIONS[asked], **more}
    check(seeded(kind, WIDTH, HIDDEN, **options), *inputs_of(kind, options, stated))


@pytest.mark.parametrize("steps", [1, 2])
def test_one_step_and_a_text_without_a_batch(steps: int) -> None:
    check(seeded(nn.LSTM, WIDTH, HIDDEN), torch.randn(steps, WIDTH))
    check(seeded(nn.GRU, WIDTH, HIDDEN, batch_first=True), torch.randn(1, steps, WIDTH))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("kind", "options"), [(nn.LSTMCell, {}), (nn.GRUCell, {}), (nn.RNNCell, {}), (nn.RNNCell, {"nonlinearity": "relu"})]
)
@pytest.mark.parametrize("shape", [(BATCH,), ()])
def test_every_cell_is_written_out(kind: Any, options: dict[str, Any], bias: bool, shape: tuple[int, ...]) -> None:
    states = [torch.randn(*shape, HIDDEN) for _ in range(1 + (kind is nn.LSTMCell))]
    check(seeded(kind, WIDTH, HIDDEN, bias=bias, **options), torch.randn(*shape, WIDTH), *states)


def test_matrices_that_read_the_input_see_all_steps_at_once() -> None:
    model = seeded(nn.LSTM, WIDTH, HIDDEN, batch_first=True)
    written = run_pass(program_of(model, torch.randn(1, STEPS, WIDTH)), UnrollRecurrences())
    shapes = [tuple(n.meta["val"].shape) for n in nodes_of(written.graph, torch.ops.aten.linear.default)]
    assert shapes == [(1, STEPS, 4 * HIDDEN), *[(1, 1, 4 * HIDDEN)] * STEPS]


def test_cells_alone_are_written_out_where_layers_have_kernels() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.cell = nn.LSTM(WIDTH, HIDDEN, batch_first=True), nn.LSTMCell(HIDDEN, HIDDEN)

        def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            hidden, cell = self.cell(self.layer(x)[0][:, -1], (state, state))
            return torch.cat([hidden, cell])

    inputs = (torch.randn(1, STEPS, WIDTH), torch.randn(1, HIDDEN))
    program = run_pass(program_of(seeded(Both), *inputs), RemoveNoops())
    written = run_pass(program, UnrollRecurrences(cells_alone=True))
    assert len(nodes_of(written.graph, torch.ops.aten.lstm.input)) == 1
    assert len(nodes_of(written.graph, torch.ops.aten.linear.default)) == 2
    # The same sums in another order.
    torch.testing.assert_close(written.graph(*inputs), program.graph(*inputs), rtol=0, atol=1e-5)
    assert not UnrollRecurrences(cells_alone=True).concerns(written)
