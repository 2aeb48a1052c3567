"""The program that flows through the compiler: a graph, its interface, its model and its history."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

import torch
from torch.fx import GraphModule

from edgec.ir.spec import ModelSpec

Layout = Literal["full", "ring", "recurrent"]


class Effect(StrEnum):
    """What a pass claims about numbers; the pipeline measures the claim."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    SEMANTIC = "semantic"


@dataclass(frozen=True)
class Dynamic:
    """A dimension that varies at run time, between ``low`` and ``high`` inclusive."""

    name: str
    low: int
    high: int

    def example(self, usual: int) -> int:
        """A size to trace with: ``usual``, or more where the tracer would take that for the least; at most ``high``."""
        return min(max(usual, 2 * self.low), self.high)


@dataclass(frozen=True)
class TensorType:
    """Name, dtype and shape of a graph input or output; a Dynamic stands for a varying dimension."""

    name: str
    dtype: torch.dtype
    shape: tuple[int | Dynamic, ...]


@dataclass(frozen=True)
class State:
    """A buffer that lives between calls.

    Attributes:
        buffer: its name in the GraphModule.
        layer: the attention layer that writes it.
        role: ``key``, ``value``, or what their integers need: ``key_grid``; ``key_scale``, ``key_zero_point``. Of a
            recurrence ``conv_state`` or ``recurrent_state``, ``..._log`` of the last tokens, and ``..._seen``, counts.
        layout: ``full`` (slot = position), ``ring``, or ``recurrent`` (one slot for all earlier tokens; a log has
            one for each that may be dropped again).
        slots: tokens it holds.
        window: the attention window a ring serves, or None.
        sink_tokens: leading tokens a ring keeps forever.
    """

    buffer: str
    layer: int
    role: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    layout: Layout
    slots: int
    window: int | None = None
    sink_tokens: int = 0


@dataclass(frozen=True)
class Interface:
    """A graph's inputs and outputs, and the states that stay between calls."""

    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    states: tuple[State, ...] = ()


@dataclass(frozen=True)
class Change:
    """What one pass did; sizes are of parameters and buffers held by the graph."""

    name: str
    effect: Effect
    options: dict[str, Any]
    nodes_before: int
    nodes_after: int
    bytes_before: int
    bytes_after: int
    seconds: float


@dataclass(frozen=True)
class Program:
    """A captured model on its way to an artifact.

    Attributes:
        graph: ATen training IR, unlifted (``ExportedProgram.module()``): parameters and buffers are attributes.
        interface: inputs in call order, outputs, states.
        spec: the decoder's shape; None for non-decoder models.
        history: the passes so far.
    """

    graph: GraphModule
    interface: Interface
    spec: ModelSpec | None = None
    history: tuple[Change, ...] = field(default=())

    def with_change(self, graph: GraphModule, interface: Interface, change: Change) -> Program:
        """This program after a pass, with the pass in its history."""
        return replace(self, graph=graph, interface=interface, history=(*self.history, change))


def held_bytes(graph: GraphModule) -> int:
    """Bytes of all distinct parameters and buffers of a graph."""
    tensors = {id(t): t for t in (*graph.parameters(), *graph.buffers())}
    return sum(t.numel() * t.element_size() for t in tensors.values())
