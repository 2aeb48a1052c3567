"""What an encoder needs while it runs: which tensors are held, for how long, and which share memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.attention import register
from edgec.exporter.dimensions.encoder_run import EncoderRun, run_of

TOKENS, WIDTH, INNER = 50, 32, 128
STATE, WIDE = 4 * TOKENS * WIDTH, 4 * TOKENS * INNER
INPUT = {"x": ((1, TOKENS, WIDTH), torch.float32)}


@pytest.fixture(autouse=True)
def registered() -> None:
    """The names of attention that a run makes use of."""
    register()


class Block(nn.Module):
    """Two matrices around an activation, and what came in added to what comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        inner = torch.nn.functional.gelu(self.up(x))
        total: Tensor = self.down(inner) + x
        return total


class Stack(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(blocks)])

    def forward(self, x: Tensor) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


def run(module: nn.Module) -> EncoderRun:
    found = run_of(module.to("meta"), INPUT)
    assert found is not None
    return found


def test_what_came_in_waits_while_the_matrices_are_multiplied() -> None:
    """At most the normed states, the wide ones and the result; of the statistics of a norm, 4 bytes a token each."""
    found = run(Stack(1))
    assert STATE + WIDE < found.fewest_bytes <= 2 * STATE + WIDE + 2 * 4 * TOKENS + 32
    assert found.most_bytes >= found.fewest_bytes + WIDE - STATE


def test_more_layers_of_one_size_need_hardly_more() -> None:
    one, many = run(Stack(2)), run(Stack(8))
    assert many.fewest_bytes <= one.fewest_bytes + STATE and many.most_bytes <= one.most_bytes + STATE


def test_what_is_read_later_is_not_written_over() -> None:
    class Keeps(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            first = x * 2.0
            return torch.tanh(first) + torch.cat([first, first], 1)[:, :TOKENS]

    # The product, its double and the tangent, over which the sum is written.
    assert run(Keeps()).fewest_bytes == 4 * STATE


def test_views_take_no_memory_and_weights_are_not_counted() -> None:
    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(WIDTH, WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            table = (self.weight * 2.0).transpose(0, 1)
            return (x @ table).reshape(TOKENS, WIDTH)[:, : WIDTH // 2]

    found = run(Looks())
    assert found.fewest_bytes == found.most_bytes == STATE


def test_scores_of_attention_are_in_the_upper_bound_alone() -> None:
    class Attends(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            scores = torch.softmax(x @ x.transpose(1, 2) / 3.0, -1)
            return scores @ x

    found, scores = run(Attends()), 4 * TOKENS * TOKENS
    assert found.fewest_bytes == STATE
    assert found.most_bytes >= 2 * scores


def test_the_positions_are_those_of_the_states() -> None:
    from transformers.modeling_outputs import BaseModelOutput

    class Encoder(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return BaseModelOutput(last_hidden_state=x * 1.0)

    assert run(Encoder()).positions == TOKENS and run(Stack(1)).positions == 0


def test_code_that_looks_at_values_is_not_run() -> None:
    class Asks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    assert run_of(Asks(), INPUT) is None
