"""A tensor whose rows are made when they are read, so that a matrix of a quantised checkpoint is never held in float.

    t[2:4], t[ids], embedding(t, ids)      ==>      the rows that ``load`` makes of the file
    any other operation                    ==>      all rows, made for this operation alone

It stands where a graph or a model has its parameters. Runs read matrices by blocks of rows (graph_run.py,
exporter/parity/float32_mode.py), so that most operations are of the first kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.utils._pytree import tree_map_only

from edgec.ir.attributes import set_buffer, set_parameter

aten = torch.ops.aten
ChosenRows = slice | Tensor
LoadRows = Callable[[ChosenRows], Tensor]
_SAME = (aten.detach.default, aten.alias.default)


class RowTensor(Tensor):
    """A matrix [rows, width] without memory of its own.

    Attributes:
        load: makes rows, given a slice with a step of one or int64 ids [n]: [n, width], in the tensor's dtype.
    """

    load: LoadRows

    @staticmethod
    def __new__(cls: type[RowTensor], shape: tuple[int, int], dtype: torch.dtype, load: LoadRows) -> RowTensor:
        """A tensor of a shape and dtype on the CPU."""
        made: RowTensor = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=torch.device("cpu"))
        made.load = load
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"RowTensor({tuple(self.shape)}, {self.dtype})"

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Read the rows that an operation asks for, or all of them."""
        if func in _SAME:
            return cls(tuple(args[0].shape), args[0].dtype, args[0].load)
        given = kwargs or {}
        chosen = _chosen(func, args, given)
        if chosen is not None:
            return chosen
        return func(*tree_map_only(RowTensor, whole, args), **tree_map_only(RowTensor, whole, given))


def _chosen(func: Any, args: Any, kwargs: Any) -> Tensor | None:
    """The result of an operation that chooses rows; None for every other."""
    own = args[0] if args and isinstance(args[0], RowTensor) and not kwargs else None
    if own is None:
        return None
    if func is aten.slice.Tensor and _by_rows(args):
        start, end = (*args[2:4], None, None)[:2]
        return own.load(slice(*slice(start, end).indices(len(own))[:2]))
    if func is aten.index.Tensor and len(args[1]) == 1 and args[1][0].dtype == torch.int64:
        ids: Tensor = args[1][0]
        return own.load(ids.reshape(-1)).view(*ids.shape, own.shape[1])
    if func is aten.embedding.default and not any(args[3:]):
        ids = args[1]
        return own.load(ids.reshape(-1)).view(*ids.shape, own.shape[1])
    return None


def _by_rows(args: Any) -> bool:
    """Whether a slice is along the first dimension with a step of one."""
    dimension, step = (args[1] if len(args) > 1 else 0), (args[4] if len(args) > 4 else 1)
    return dimension == 0 and step == 1


def whole(tensor: Tensor) -> Tensor:
    """All rows of a row tensor, as a plain tensor; any other as it is."""
    return tensor.load(slice(0, len(tensor))) if isinstance(tensor, RowTensor) else tensor


def fill_floats(graph: GraphModule) -> None:
    """Give the float row tensors among a graph's parameters memory of their own."""
    made: dict[int, nn.Parameter] = {}
    for name, value in list(graph.named_parameters(remove_duplicate=False)):
        if isinstance(value, RowTensor):
            place = id(value.load)
            if place not in made:
                made[place] = nn.Parameter(whole(value), requires_grad=False)
            set_parameter(graph, name, made[place])


def fill_integers(graph: GraphModule) -> None:
    """Give the row tensors among a graph's buffers, a checkpoint's integers, memory of their own."""
    made: dict[int, Tensor] = {}
    for name, value in list(graph.named_buffers(remove_duplicate=False)):
        if isinstance(value, RowTensor):
            if id(value.load) not in made:
                made[id(value.load)] = whole(value)
            set_buffer(graph, name, made[id(value.load)])


@contextmanager
def stood_in(graph: GraphModule) -> Iterator[dict[str, RowTensor]]:
    """Put tensors that are never touched in the place of a graph's row tensors while it is traced anew.

    Yields:
        The row tensors by name, for the new graph (``put_rows``).
    """
    found = {name: value for name, value in graph.named_buffers(remove_duplicate=False) if isinstance(value, RowTensor)}
    for name, value in found.items():
        # Pages of memory that nobody writes take none.
        set_buffer(graph, name, torch.empty(value.shape, dtype=value.dtype))
    try:
        yield found
    finally:
        put_rows(graph, found)


def put_rows(graph: GraphModule, rows: dict[str, RowTensor]) -> None:
    """Put row tensors where a graph reads their names; what else it has of these names is dropped."""
    read = {str(node.target) for node in graph.graph.nodes if node.op == "get_attr"}
    for name in rows.keys() & read:
        set_buffer(graph, name, rows[name])
