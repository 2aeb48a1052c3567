"""Writes into buffers, parameters and inputs: those that an output depends on are refused, others leave no trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.exporter.parity.earlier_calls import lasting_answer
from edgec.exporter.sources.modules.module_state import own_copy

X = torch.linspace(-1, 2, 20).reshape(5, 4)


class _Held(nn.Module):
    """A module whose ``forward`` is a function of itself and its input."""

    h: Tensor
    n: Tensor
    seen: list[Tensor]
    table: dict[str, Tensor]

    def __init__(self, call: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.register_buffer("h", torch.ones(5, 4))
        self.register_buffer("n", torch.zeros(1, dtype=torch.long))
        self.norm, self.instance = nn.BatchNorm1d(4), nn.InstanceNorm1d(5, track_running_stats=True)
        self.linear = nn.Linear(4, 4)
        self.count, self.seen, self.table, self.last = 0, [], {}, deque([torch.zeros(5, 4)] * 2, maxlen=2)
        self.plain, self.cache = torch.zeros(5, 4), None
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self, x)


def _counts(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    result: Tensor = x * m.n
    return result


def _assigns(m: Any, x: Tensor) -> Tensor:
    m.h = torch.tanh(x + m.h)
    result: Tensor = m.h
    return result


def _delays(m: Any, x: Tensor) -> Tensor:
    y = x + m.h
    m.h[:, :2] = x[:, :2]
    result: Tensor = y
    return result


def _shifts(m: Any, x: Tensor) -> Tensor:
    m.h.index_copy_(0, m.n, x[:1])
    m.n += 1
    result: Tensor = m.h.sum(0)
    return result


def _through_a_view(m: Any, x: Tensor) -> Tensor:
    y = x * m.h
    m.h.view(-1)[1:3] = x.sum()
    result: Tensor = y
    return result


def _shrinks_weights(m: Any, x: Tensor) -> Tensor:
    m.linear.weight.mul_(0.5)
    result: Tensor = m.linear(x)
    return result


IN_GRAPHS = [_counts, _assigns, _delays, _shifts, _through_a_view, _shrinks_weights]


def _adds_to_an_attribute(m: Any, x: Tensor) -> Tensor:
    m.plain = m.plain + x
    result: Tensor = m.plain
    return result


def _counts_in_python(m: Any, x: Tensor) -> Tensor:
    m.count += 1
    result: Tensor = x * m.count
    return result


def _lists(m: Any, x: Tensor) -> Tensor:
    m.seen.append(x)
    return torch.stack(m.seen).sum(0)


def _queues(m: Any, x: Tensor) -> Tensor:
    m.last.append(x)
    result: Tensor = m.last[0] + m.last[1]
    return result


def _keeps_the_first(m: Any, x: Tensor) -> Tensor:
    result: Tensor = x + m.table.setdefault("first", x * 2)
    return result


IN_PYTHON = [_adds_to_an_attribute, _counts_in_python, _lists, _queues, _keeps_the_first]


def _counts_unread(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    m.h.copy_(x * 3)
    result: Tensor = m.h * 2 + 1
    return result


def _scratch(m: Any, x: Tensor) -> Tensor:
    m.h.zero_()
    m.h[:, :2] = x[:, :2]
    result: Tensor = m.h + 1
    return result


def _own_statistics(m: Any, x: Tensor) -> Tensor:
    m.norm.train()
    y: Tensor = m.norm(x)
    return y + nn.functional.batch_norm(x, m.norm.running_mean, m.norm.running_var, training=True)


def _instance_statistics(m: Any, x: Tensor) -> Tensor:
    m.instance.train()
    y: Tensor = m.instance(x[None])
    return y


def _writes_its_input(m: Any, x: Tensor) -> Tensor:
    x += 1
    x[:, :1] = 0
    return x * 2


def _fills_a_cache(m: Any, x: Tensor) -> Tensor:
    if m.cache is None:
        m.cache = torch.arange(4.0).sin()
    result: Tensor = x + m.cache
    return result


def _counts_in_python_unread(m: Any, x: Tensor) -> Tensor:
    m.count += 1
    return x * 2


WITHOUT_STATE = [
    *(_counts_unread, _scratch, _own_statistics, _instance_statistics),
    *(_writes_its_input, _fills_a_cache, _counts_in_python_unread),
]


@pytest.mark.parametrize("call", IN_GRAPHS)
def test_a_state_in_buffers_is_refused_when_it_is_captured(call: Any) -> None:
    with torch.no_grad(), pytest.raises(InputError, match="keeps state between calls") as caught:
        capture_module(_Held(call).eval(), (X.clone(),), name="my:make")
    assert caught.value.code == "E790" and "forward writes" in caught.value.why


@pytest.mark.parametrize("call", [*IN_GRAPHS, *IN_PYTHON])
def test_a_state_anywhere_is_seen_in_later_calls(call: Any) -> None:
    module = _Held(call).eval()
    with pytest.raises(InputError, match="keeps state between calls") as caught:
        lasting_answer(lambda: own_copy(module), (X,), "my:make")
    assert caught.value.code == "E790"


@torch.no_grad()
@pytest.mark.parametrize("call", WITHOUT_STATE)
def test_what_no_output_depends_on_leaves_no_trace(call: Any) -> None:
    module, x = _Held(call).eval(), X.clone()
    returned = lasting_answer(lambda: own_copy(module), (x,), "my:make")
    assert module.count == 0 and module.cache is None and torch.equal(module.h, torch.ones(5, 4))
    program = capture_module(own_copy(module), (x.clone(),))
    for _ in range(2):
        assert torch.equal(program.graph(x)[0], returned.tensors[0]) and torch.equal(x, X)
    nodes = [node for node in program.graph.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    assert not any(node.target._schema.is_mutable for node in nodes)


def test_a_state_under_two_names_is_refused() -> None:
    module = _Held(lambda m, x: (m.n.add_(1), x * m.other)[1]).eval()
    module.other = module.n
    with torch.no_grad(), pytest.raises(InputError, match="keeps state between calls"):
        capture_module(module, (X.clone(),))


def test_a_copy_shares_parameters_and_nothing_else() -> None:
    module = _Held(_counts)
    module.plain = module.linear(X)  # computed by torch: it can only be copied without how
    copied: Any = own_copy(module)
    assert copied is not module and copied.linear.weight is module.linear.weight
    assert copied.h is not module.h and torch.equal(copied.plain, module.plain)
    module.forward = lambda x: module.linear(x) + 1  # type: ignore[method-assign]
    assert own_copy(module) is module
