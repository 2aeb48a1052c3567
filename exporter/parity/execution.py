"""Run a model in any of its forms over the same tokens, fed as a phone would: whole chunks, then single tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from edgec.exporter.parity.float32_mode import InFloat32
from edgec.exporter.parity.graph_run import first_output, run_calls
from edgec.exporter.program import Interface, Program
from edgec.passes.contract import run_pass
from edgec.passes.last_logits import LastLogits, vocabulary_linear

Tokens = Sequence[int]
Step = Callable[[Tensor, Tensor, Tensor], Tensor]
# Single tokens that every plan ends with: what a call leaves behind shows in the calls after it.
_LAST_SINGLE = 4
# 1 GiB in float32.
_MOST_LOGITS = 1 << 28


@dataclass(frozen=True)
class Call:
    """One call of a cached method: tokens ``start .. start + size - 1``, logits of the last ``rows`` of them."""

    start: int
    size: int
    rows: int


def call_plan(length: int, chunk: int, rows: int) -> tuple[Call, ...]:
    """Cover ``length`` tokens with every shape a caller may use, and end with single tokens.

    A whole chunk, a part of one, single tokens and calls of ``rows`` follow each other, over again. Where a chunk would
    leave too few tokens for that, the first call takes half of them, and the longest call that fits comes last, from
    the start of the sequence.
    """
    room = max(1, length - min(_LAST_SINGLE, length - 1))
    largest = chunk if chunk + 2 * rows < room else max(1, min(chunk, length // 2))
    calls: list[Call] = []
    for size in _sizes(room, (largest, max(1, largest // 3), 1, 1, 1, rows, rows), length):
        start = calls[-1].start + calls[-1].size if calls else 0
        calls.append(Call(start, size, min(size, rows)))
    again = min(chunk, length)
    return (*calls, Call(0, again, min(again, rows))) if largest < again else tuple(calls)


def _sizes(room: int, pattern: Sequence[int], length: int) -> Iterator[int]:
    """Sizes of calls: the pattern over and over until ``room`` tokens are covered, then single tokens."""
    left = room
    for size in cycle(pattern):
        if left <= 0:
            break
        yield min(size, left)
        left -= size
    yield from [1] * (length - room)


def compared_positions(plan: Sequence[Call]) -> list[int]:
    """Positions whose logits a plan yields, in order."""
    return [p for call in plan for p in range(call.start + call.size - call.rows, call.start + call.size)]


def feed(step: Step, tokens: Tokens, plan: Sequence[Call]) -> Tensor:
    """Teacher-forced logits, float32 [P, V], of the plan's compared positions."""
    collected = []
    for call in plan:
        ids = torch.tensor([list(tokens[call.start : call.start + call.size])], dtype=torch.int64)
        positions = torch.arange(call.start, call.start + call.size)
        collected.append(step(ids, positions, last_rows(call))[0].float().clone())
    return torch.cat(collected)


def run_program(program: Program, tokens: Tokens, plan: Sequence[Call]) -> Tensor:
    """A decoder Program's logits, float32 [P, V], at the plan's compared positions."""
    wanted = compared_positions(plan)
    program = _bounded(program, len(tokens), len(wanted))
    whole = (0, len(tokens), torch.tensor(wanted))
    parts = [(call.start, call.size, last_rows(call)) for call in plan] if program.interface.states else [whole]
    with torch.no_grad():
        outputs = run_calls(program, [call_inputs(program.interface, tokens, *part) for part in parts])
    chosen = any(tensor.name == "logit_index" for tensor in program.interface.inputs)
    logits = [
        first_output(output)[0] if chosen else first_output(output)[0, rows]
        for output, (*_, rows) in zip(outputs, parts, strict=True)
    ]
    return torch.cat(logits).float()


def _bounded(program: Program, length: int, rows: int) -> Program:
    """The program, with logits of chosen positions only where those of all would take too much memory."""
    if program.interface.states or any(tensor.name == "logit_index" for tensor in program.interface.inputs):
        return program
    vocabulary: Any = program.interface.outputs[0].shape[-1]
    if length * vocabulary <= _MOST_LOGITS or vocabulary_linear(program.graph) is None:
        return program
    return run_pass(program, LastLogits(rows))


def last_rows(call: Call) -> Tensor:
    """The rows of a call whose logits are wanted, int64 [K]."""
    return torch.arange(call.size - call.rows, call.size)


def call_inputs(interface: Interface, tokens: Tokens, start: int, size: int, rows: Tensor) -> list[Tensor]:
    """A graph's inputs for the tokens ``start .. start + size - 1``, in the interface's order."""
    values = {
        "tokens": torch.tensor([list(tokens[start : start + size])], dtype=torch.int64),
        "positions": torch.arange(start, start + size),
        "logit_index": rows,
    }
    return [values[tensor.name] for tensor in interface.inputs]


def run_artifact(artifact: Path, tokens: Tokens, plan: Sequence[Call]) -> Tensor:
    """The same from a .pte, executed by ExecuTorch's runtime in this process: float32 [P, V]."""
    return feed(artifact_step(artifact), tokens, plan)


def artifact_step(artifact: Path) -> Step:
    """Load a .pte and return its method."""
    from edgec.runtime_py.native import Method

    method = Method(artifact)

    def step(ids: Tensor, positions: Tensor, rows: Tensor) -> Tensor:
        logits: Tensor = method((ids, positions, rows))[0]
        return logits

    return step


def run_eager(model: torch.nn.Module, tokens: Tokens, plan: Sequence[Call]) -> Tensor:
    """Transformers' own model in float32, without any cache: float32 [P, V] at the plan's compared positions."""
    rows = torch.tensor(compared_positions(plan))
    chooses = "logits_to_keep" in signature(model.forward).parameters
    with torch.no_grad(), InFloat32():
        chosen = {"logits_to_keep": rows} if chooses else {}
        logits: Tensor = model(input_ids=torch.tensor([list(tokens)]), use_cache=False, **chosen).logits
    return (logits[0] if chooses else logits[0, rows]).float()


def record_layers(graph: GraphModule, inputs: Sequence[Tensor]) -> dict[int, Tensor]:
    """The output of every attention layer during one call, by layer."""
    recorder = _Recorder(graph)
    with torch.no_grad():
        recorder.run(*inputs)
    return recorder.layers


class _Recorder(torch.fx.Interpreter):
    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.layers: dict[int, Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        from edgec.exporter.capture.attention import layer_of

        result = super().run_node(n)
        layer = layer_of(n)
        if layer is not None:
            self.layers[layer] = result.detach().clone()
        return result
