"""Faults of a lowering, planted into a rounded graph: one matrix of it is stored otherwise."""

from __future__ import annotations

import torch
from torch import Tensor

from edgec.ir.attributes import attribute
from edgec.ir.program import Program
from edgec.passes.contract import clone

BLOCK = 512
_INTEGERS = torch.int8, torch.uint8
SWAPPED, ONE_ROW, ROWS_OFF, LOST = "two blocks swapped", "a row in another's place", "rows off by one", "lost scales"


def damaged(program: Program, fault: str, matrix: str) -> Program:
    """The program with a fault in the rounded matrix whose name ``matrix`` is a part of."""
    graph = clone(program.graph)
    held = [(name, value) for name, value in graph.named_buffers() if matrix in name]
    name, old = next((name, value) for name, value in held if value.dtype in _INTEGERS and value.shape[1] > 16)
    if fault == LOST:
        name, old = next((name, value) for name, value in held if name.endswith(("_scale", "_table")))
    owner, _, leaf = name.rpartition(".")
    setattr(graph.get_submodule(owner), leaf, _damaged(old, fault))
    assert not torch.equal(attribute(graph, name), old)
    return Program(graph, program.interface, program.spec, program.history)


def _damaged(old: Tensor, fault: str) -> Tensor:
    new = old.clone()
    if fault == SWAPPED:
        flat = old.view(-1)
        new.view(-1)[: 2 * BLOCK] = torch.cat([flat[BLOCK : 2 * BLOCK], flat[:BLOCK]])
    elif fault == ONE_ROW:
        new[7] = old[8]
    elif fault == ROWS_OFF:
        new = old.roll(1, 0)
    else:
        new = torch.ones_like(old)
    return new
