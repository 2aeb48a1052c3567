"""Inputs of every call over a text, and the range of every state: what fixed-point numbers are chosen by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from edgec.exporter.parity.execution import Call
from edgec.exporter.parity.static_run import PREFILL, joined_logits, named_results, run_static, write_new_rows
from edgec.exporter.program import Program
from edgec.passes.cut_model import HIDDEN, NEXT

Parts = Mapping[str, Sequence[tuple[Program, Program]]]
_SINGLE = 24


@dataclass
class Calibration:
    """The float graphs, run over a text.

    Attributes:
        parts: by method, in order: the CPU's and the Hexagon processor's half of each part.
        feeds: the inputs of each call of the second half, by METHOD_PART and name.
        states: keys and values so far.
        ranges: smallest and largest value written to each state.
    """

    parts: Parts
    feeds: dict[str, list[dict[str, Tensor]]] = field(default_factory=dict)
    states: dict[str, Tensor] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        tokens = next(t for t in self.parts[PREFILL][0][0].interface.inputs if t.name == "tokens")
        return int(tokens.shape[1])  # type: ignore[arg-type]

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Run all parts and note what goes in and out."""
        given = dict(inputs)
        for index, (host, npu) in enumerate(self.parts[method]):
            for state in npu.interface.states:
                self.states.setdefault(state.buffer, torch.zeros(state.shape))
            given |= named_results(host, given)
            fed = {**given, **self.states}
            feed = {tensor.name: fed[tensor.name].clone() for tensor in npu.interface.inputs}
            self.feeds.setdefault(f"{method}_{index}", []).append(feed)
            outputs = named_results(npu, feed)
            self._note(outputs)
            write_new_rows(self.states, outputs, int(inputs["start"]))
            given |= {HIDDEN: outputs[NEXT]} if NEXT in outputs else {}
        return joined_logits(outputs)

    def _note(self, outputs: Mapping[str, Tensor]) -> None:
        for name, value in outputs.items():
            if name.startswith("new_"):
                state = name.removeprefix("new_")
                low, high = self.ranges.get(state, (0.0, 0.0))
                self.ranges[state] = (min(low, float(value.min())), max(high, float(value.max())))


def calibrated(parts: Parts, tokens: Sequence[int]) -> Calibration:
    """Run a text: whole chunks (or one that is padded), then single tokens."""
    found = Calibration(parts)
    single = min(_SINGLE, max(1, len(tokens) // 4))
    fed = len(tokens) - single
    sizes = [found.chunk] * (fed // found.chunk) or [max(fed, 2)]
    sizes += [1] * single
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    run_static(found, tokens, [Call(start, size, 1) for start, size in zip(starts, sizes, strict=True)])
    return found
