"""A cached decoder's graph, run by torch: rings and rounded caches as they are in artifacts, without lowering them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgec.bundle.entry_points import Limits
from edgec.errors import InputError
from edgec.exporter.stages.compiled import state_info
from edgec.ir.program import Program
from edgec.runtime_py.decoding.stepper import Logits, prefill_in_chunks
from edgec.runtime_py.sessions.cache_contents import CacheContents
from edgec.runtime_py.sessions.hidden_rows import HiddenRows


class GraphStepper:
    """One sequence on a program with states."""

    def __init__(self, program: Program, context: int, chunk: int, rows: int) -> None:
        self.limits = Limits(context=context, prefill_chunk=chunk, logit_rows=rows)
        self.states = [state_info(state) for state in program.interface.states]
        self.cache, self._graph = CacheContents(self.states), program.graph
        self.longest = 0
        self._heads: tuple[list[int], Logits] | None = None
        second = [output for output in program.interface.outputs if output.name == "hidden"]
        self.hidden = HiddenRows(context, int(str(second[0].shape[-1]))) if second else None

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        if not self.cache.continues_at(start) or len(tokens) > self.limits.prefill_chunk:
            raise InputError("outside the contract", code="E153")
        self.longest = max(self.longest, len(rows))
        with torch.no_grad():
            ids, positions = torch.tensor([list(tokens)]), torch.arange(start, start + len(tokens))
            output = self._graph(ids, positions, torch.tensor(list(rows)))
        self.cache.write(start, tokens)
        logits, *more = output if isinstance(output, tuple | list) else (output,)
        if self.hidden is not None:
            self.hidden.write(start, tokens, more[0][0].numpy())
        elif more:
            self._heads = ([start + row for row in rows], more[0][0].numpy())
        result: Logits = logits[0].numpy()
        return result

    def head_logits(self, position: int) -> Logits | None:
        if self._heads is None or position not in self._heads[0]:
            return None
        result: Logits | None = self._heads[1][self._heads[0].index(position)]
        return result

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        return prefill_in_chunks(self, tokens, start)

    def reusable(self, tokens: Sequence[int]) -> int:
        return self.cache.reusable(tokens)


class GraphExecutor:
    """A method's graph as an executor: arrays in, arrays out, its states in between."""

    state = None

    def __init__(self, program: Program) -> None:
        self._graph = program.graph
        self.calls: list[tuple[NDArray[Any], ...]] = []

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        self.calls.append(tuple(inputs))
        with torch.no_grad():
            outputs = self._graph(*(torch.from_numpy(np.array(array)) for array in inputs))
        return [output.numpy() for output in outputs]

    lend = run
