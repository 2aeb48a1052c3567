"""Numbers that a module reads out of its constants are known when it is captured."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module

Function = Callable[[Tensor, Tensor], Tensor]


class Shifts(nn.Module):
    """A module with a constant, as PESTO's pitch tracker has its shift."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("shift", torch.tensor(1.4))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.get_buffer("shift"))


KNOWN: dict[str, Function] = {
    "turned": lambda x, shift: x.roll(-round(shift.cpu().item() * 3), -1),
    "scaled": lambda x, shift: x * shift.item(),
    "a computed constant": lambda x, shift: x + torch.exp(shift + shift).item(),
}


@pytest.mark.parametrize("name", KNOWN)
def test_numbers_of_constants_are_known(name: str) -> None:
    x = torch.arange(24.0).reshape(2, 12)
    module = Shifts(KNOWN[name])
    graph = capture_module(module, (x,)).graph
    torch.testing.assert_close(graph(x)[0], module(x))
    called = [node for node in graph.graph.nodes if node.op == "call_function"]
    assert not [node for node in called if not isinstance(node.target, torch._ops.OpOverload)]
    assert torch.ops.aten.item.default not in {node.target for node in called}


def test_a_number_of_the_input_stays() -> None:
    graph = capture_module(Shifts(lambda x, shift: x * x.sum().item()), (torch.ones(2, 3),)).graph
    assert torch.ops.aten.item.default in {node.target for node in graph.graph.nodes}
