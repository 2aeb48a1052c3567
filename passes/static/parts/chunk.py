"""What a call of fixed shape says about its tokens: which of them are padding, and whether they begin a sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.passes.contract import placeholder
from edgec.passes.graph.emit import Emitter, shared_constant

aten = torch.ops.aten


@dataclass
class Chunk:
    """The tokens of one call; what several layers read of them is computed once.

    Attributes:
        graph: of a static method, with the inputs ``start`` and ``last``.
        tokens: S, padding included.
        made: by name, the values so far.
    """

    graph: GraphModule
    tokens: int
    made: dict[str, Node] = field(default_factory=dict)

    def continues(self, emit: Emitter) -> Node:
        """1 where the call continues a sequence, 0 where it begins one, float32 [1]."""
        return self._once("continues", lambda: _as_float(emit, emit(aten.gt.Scalar, self._given("start"), 0)))

    def valid(self, emit: Emitter) -> Node:
        """1 for each token and 0 for padding after the last one, float32 [S]."""
        rows = self.constant(emit, f"token_rows_{self.tokens}", torch.arange(self.tokens, dtype=torch.int32))
        return self._once("valid", lambda: _as_float(emit, emit(aten.le.Tensor, rows, self._given("last"))))

    def tail(self, emit: Emitter, first: int, count: int) -> Node:
        """Rows ``last + first ..`` of a value, int32 [count]; the last token's own row is ``last``."""
        name = f"tail_rows_{first}_{count}"
        rows = self.constant(emit, name, torch.arange(first, first + count, dtype=torch.int32))
        return self._once(name, lambda: emit(aten.add.Tensor, rows, self._given("last")))

    def constant(self, emit: Emitter, name: str, value: Tensor) -> Node:
        """A constant that all layers read."""
        return shared_constant(self.graph, emit, name, value, self._given("last"))

    def square(self, emit: Emitter, name: str, value: Tensor) -> Node:
        """A constant [S, S] as a matrix for every head, float32 [1, 1, S, S]."""
        return self.constant(emit, f"{name}_{self.tokens}", value[None, None])

    def earlier(self, emit: Emitter) -> Node:
        """1 where the column's token lies before the row's, float32 [1, 1, S, S]."""
        return self.square(emit, "earlier", torch.ones(self.tokens, self.tokens).tril(-1))

    def up_to(self, emit: Emitter) -> Node:
        """1 where the column's token is the row's or lies before it, float32 [1, 1, S, S]."""
        return self.square(emit, "up_to", torch.ones(self.tokens, self.tokens).tril())

    def _given(self, name: str) -> Node:
        return placeholder(self.graph, name)

    def _once(self, name: str, make: Callable[[], Node]) -> Node:
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]


def _as_float(emit: Emitter, truth: Node) -> Node:
    return emit(aten.to.dtype, truth, torch.float32)
