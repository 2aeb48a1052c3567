"""A row tensor is the tensor that its loader makes, and asks it for no more rows than an operation reads."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule

from edgec.ir.row_tensor import ChosenRows, RowTensor, fill_floats, fill_integers, stood_in, whole

BASE = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))


def _rows() -> tuple[RowTensor, list[ChosenRows]]:
    asked: list[ChosenRows] = []

    def load(rows: ChosenRows) -> Tensor:
        asked.append(rows)
        return BASE[rows]

    return RowTensor((10, 4), torch.float32, load), asked


def test_slices_and_look_ups_read_their_rows_alone() -> None:
    made, asked = _rows()
    parameter = nn.Parameter(made, requires_grad=False)
    assert torch.equal(parameter[2:5], BASE[2:5]) and torch.equal(parameter[-3:], BASE[-3:])
    assert torch.equal(parameter[torch.tensor([3, 1])], BASE[[3, 1]])
    assert torch.equal(nn.functional.embedding(torch.tensor([[1, 2]]), parameter), BASE[[1, 2]][None])
    assert asked[:2] == [slice(2, 5), slice(7, 10)]
    assert [rows.tolist() for rows in asked[2:] if isinstance(rows, Tensor)] == [[3, 1], [1, 2]]


def test_other_operations_see_all_rows() -> None:
    made, _ = _rows()
    assert torch.equal(made * 2, BASE * 2) and torch.equal(made[:, 1:3], BASE[:, 1:3])
    assert torch.equal(nn.functional.linear(torch.ones(1, 4), made), nn.functional.linear(torch.ones(1, 4), BASE))
    assert torch.equal(whole(made.detach()), BASE) and whole(BASE) is BASE


def test_a_graphs_parameters_are_filled_once_and_its_buffers_stood_in() -> None:
    root, (made, _) = nn.Module(), _rows()
    root.register_parameter("a", nn.Parameter(made, requires_grad=False))
    root.register_parameter("b", nn.Parameter(made, requires_grad=False))
    root.register_buffer("c", made)
    graph = Graph()
    graph.output(tuple(graph.get_attr(name) for name in "abc"))
    module = GraphModule(root, graph)
    fill_floats(module)
    one, other = module.get_parameter("a"), module.get_parameter("b")
    assert torch.equal(one, BASE) and one.data_ptr() == other.data_ptr() != 0
    with stood_in(module) as rows:
        assert type(module.get_buffer("c")) is Tensor and module.get_buffer("c").shape == (10, 4) and set(rows) == {"c"}
    assert module.get_buffer("c") is made
    fill_integers(module)
    assert type(module.get_buffer("c")) is Tensor and torch.equal(module.get_buffer("c"), BASE)
