"""Inputs of every call over a text, and the range of every state, from which fixed-point grids are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from edgec.ir.call_plan import Call
from edgec.ir.program import Program
from edgec.ir.static_methods import PREFILL, join_logits, named_results, run_static, write_states
from edgec.passes.static.parts.cut_model import HIDDEN, NEXT

ModelParts = Mapping[str, Sequence[tuple[Program, Program]]]
_SINGLE = 24


@dataclass(frozen=True)
class Fed:
    """What one call of a part was given: its inputs, and the states up to position ``start``."""

    start: int
    given: Mapping[str, Tensor]
    states: tuple[str, ...]


@dataclass
class FloatRun:
    """The float graphs, run over a text.

    Attributes:
        parts: by method, in order: the CPU's and the Hexagon processor's half of each part.
        calls: the calls of the second half, by METHOD_PART.
        states: keys and values so far; held once, whatever the number of calls.
        ranges: smallest and largest value written to each state.
    """

    parts: ModelParts
    calls: dict[str, list[Fed]] = field(default_factory=dict)
    states: dict[str, Tensor] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        tokens = next(t for t in self.parts[PREFILL][0][0].interface.inputs if t.name == "tokens")
        return int(tokens.shape[1])  # type: ignore[arg-type]

    def feeds(self, part: str) -> Iterator[dict[str, Tensor]]:
        """The inputs of each call of a part, by name; slots that no token had reached are empty."""
        for fed in self.calls[part]:
            yield {**fed.given, **{name: _until(self.states[name], fed.start) for name in fed.states}}

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Run all parts of a decoder's method and note what goes in and out."""
        return join_logits(self.outputs(method, inputs))

    def outputs(self, method: str, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run all parts of a method and return the outputs of the last part, by name."""
        given = dict(inputs)
        for index, (host, npu) in enumerate(self.parts[method]):
            for state in npu.interface.states:
                self.states.setdefault(state.buffer, torch.zeros(state.shape))
            given |= named_results(host, given)
            outputs = self._fed(f"{method}_{index}", npu, given)
            self._note(outputs)
            if npu.interface.states:
                write_states(self.states, outputs, int(inputs["start"]))
            given |= {HIDDEN: outputs[NEXT]} if NEXT in outputs else {}
        return outputs

    def _fed(self, part: str, npu: Program, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        names = [tensor.name for tensor in npu.interface.inputs]
        own = {name: given[name].clone() for name in names if name not in self.states}
        held = tuple(name for name in names if name in self.states)
        start = int(given["start"]) if held else 0
        self.calls.setdefault(part, []).append(Fed(start, own, held))
        return named_results(npu, {**own, **{name: self.states[name] for name in held}})

    def _note(self, outputs: Mapping[str, Tensor]) -> None:
        for name, value in outputs.items():
            if name.startswith("new_"):
                state = name.removeprefix("new_")
                low, high = self.ranges.get(state, (0.0, 0.0))
                self.ranges[state] = (min(low, float(value.min())), max(high, float(value.max())))


def _until(state: Tensor, start: int) -> Tensor:
    """A state [1, G, slots, D] as it was before position ``start`` was written; earlier rows never change."""
    before = torch.zeros_like(state)
    before[:, :, :start] = state[:, :, :start]
    return before


def calibrated(parts: ModelParts, tokens: Sequence[int]) -> FloatRun:
    """Run a decoder over a text: whole chunks (or one that is padded), then single tokens."""
    run = FloatRun(parts)
    single = min(_SINGLE, max(1, len(tokens) // 4))
    fed = len(tokens) - single
    sizes = [run.chunk] * (fed // run.chunk) or [max(fed, 2)]
    sizes += [1] * single
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    run_static(run, tokens, [Call(start, size, 1) for start, size in zip(starts, sizes, strict=True)])
    return run


def exemplified(parts: ModelParts, names: Sequence[str], examples: Sequence[Sequence[Tensor]]) -> FloatRun:
    """Run a non-decoder model over examples, whose tensors are in the order of ``names``."""
    run = FloatRun(parts)
    for method in parts:
        for example in examples:
            with torch.no_grad():
                run.outputs(method, dict(zip(names, example, strict=True)))
    return run
