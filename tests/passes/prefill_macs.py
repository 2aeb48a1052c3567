"""Multiply-accumulates of one call of a decoder's graph, counted from shapes: linear layers and attention."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Interpreter, Node

from edgec.ir.operators import CACHED_ATTENTION
from edgec.ir.program import Program
from edgec.passes.prefill.last_logits import lm_head_linear

aten = torch.ops.aten


def prefill_macs(program: Program, tokens: int, rows: int) -> dict[str, int]:
    """Multiply-accumulates of a call with ``tokens`` from 0 on and ``rows`` logits; a query row meets all tokens."""
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        ids, positions = torch.zeros(1, tokens, dtype=torch.int64), torch.arange(tokens)
        counter = _Counter(program.graph)
        counter.run(ids, positions, torch.arange(tokens - rows, tokens))
    return counter.counted


class _Counter(Interpreter):
    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__(graph)
        self.last = lm_head_linear(graph)
        self.counted = {"linear": 0, "attention": 0, "vocabulary": 0}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.target is aten.linear.default:
            weight = self.env[n.args[1]]  # type: ignore[index]
            self.counted["vocabulary" if n is self.last else "linear"] += result.numel() * int(weight.shape[1])
        elif n.target is CACHED_ATTENTION:
            queries, written = (self.env[n.args[i]] for i in (0, 2))  # type: ignore[index]
            self.counted["attention"] += (queries.numel() + result.numel()) * len(written)
        return result
