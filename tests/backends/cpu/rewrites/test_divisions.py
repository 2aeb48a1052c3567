"""Divisions by one number for each token: a token's bits are the same alone and among others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, symbolic_trace

from edgec.backends.cpu import lower as lowering
from edgec.backends.cpu.lower import lower
from edgec.backends.cpu.rewrites.divisions import write_out_divisions
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.ir.reexport import reexport
from edgec.passes.contract import nodes_of
from edgec.runtime_py.engines.open_artifact import TorchMethod

TOKENS, WIDTH = 40, 24
X = torch.randn(1, TOKENS, WIDTH, generator=torch.Generator().manual_seed(0))
DIV = torch.ops.aten.div.Tensor
Body = Callable[[Tensor, Tensor], Tensor]


class Computed(nn.Module):
    """A function of x [1, S, WIDTH] beside a buffer of one number."""

    number: Tensor

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("number", torch.tensor(3.7))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x, self.number)


def magnitude(x: Tensor) -> Tensor:
    return (x * x).mean(-1, keepdim=True).sqrt()


WRITTEN_OUT: dict[str, Body] = {
    "a number for each token": lambda x, number: x / magnitude(x),
    "weights by their sum": lambda x, number: x.sigmoid() / x.sigmoid().sum(-1, keepdim=True),
    "divided by a constant": lambda x, number: magnitude(x) / number,
    "divided by a Python number": lambda x, number: magnitude(x) / 3.7,
}
LEFT_ALONE: dict[str, Body] = {
    "equal shapes": lambda x, number: x / (x * x + 1),
    "one by one": lambda x, number: magnitude(x) / (magnitude(x) + 1),
    "several by a constant": lambda x, number: x / number,
    "a constant by one": lambda x, number: number / magnitude(x),
}


def program(body: Body) -> Program:
    sizes = (1, Dynamic("S", 1, TOKENS), WIDTH)
    interface = Interface((TensorType("x", torch.float32, sizes),), (TensorType("y", torch.float32, sizes),))
    traced = reexport(symbolic_trace(Computed(body)), interface).module(check_guards=False)
    return Program(GraphModule(traced, traced.graph), interface)


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_the_numbers_stay(name: str) -> None:
    graph, body = program(WRITTEN_OUT[name]).graph, WRITTEN_OUT[name]
    write_out_divisions(graph)
    graph.recompile()
    assert not nodes_of(graph, DIV)
    # The reciprocal is rounded once more, by half a unit in the last of 24 bits.
    torch.testing.assert_close(graph(X), body(X, torch.tensor(3.7)), rtol=2e-7, atol=0)


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_divided_in_any_call_is_left_alone(name: str) -> None:
    graph = program(LEFT_ALONE[name]).graph
    write_out_divisions(graph)
    assert nodes_of(graph, DIV)


def test_the_number_of_tokens_is_not_a_tensor() -> None:
    graph = program(lambda x, number: magnitude(x) / x.shape[1]).graph
    write_out_divisions(graph)
    assert len(nodes_of(graph, DIV)) == 1


def differing_tokens(artifact: bytes, folder: Path) -> int:
    """How many tokens have other bits alone than among all."""
    (folder / "model.pte").write_bytes(artifact)
    method = TorchMethod(folder / "model.pte")
    whole = method([X])[0].clone()
    return sum(not torch.equal(method([X[:, i : i + 1].clone()])[0], whole[:, i : i + 1]) for i in range(TOKENS))


def one_of(names: Iterable[str]) -> list[Any]:
    """The first name, and the others for ``make test-all``: each is lowered."""
    first, *others = names
    return [first, *(pytest.param(name, marks=pytest.mark.slow) for name in others)]


@pytest.mark.long
@pytest.mark.parametrize("name", [*one_of(WRITTEN_OUT), *one_of(LEFT_ALONE)])
def test_a_token_has_the_same_bits_in_any_call(name: str, tmp_path: Path) -> None:
    body = {**WRITTEN_OUT, **LEFT_ALONE}[name]
    assert differing_tokens(lower(program(body)).artifact, tmp_path) == 0


@pytest.mark.long
@pytest.mark.parametrize("name", one_of(WRITTEN_OUT))
def test_executorch_divides_otherwise_in_calls_of_one_token(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lowering, "write_out_divisions", lambda graph: None)
    # Where this fails, ExecuTorch divides alike in all calls, and nothing need be written out.
    assert differing_tokens(lower(program(WRITTEN_OUT[name])).artifact, tmp_path) > 0
