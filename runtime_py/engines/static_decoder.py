"""A decoder with static methods as an ``Executor``, which is fed any number of tokens and asked for any rows.

    tokens int64 [1, S], positions int64 [S], rows?, memory?, logit_index int64 [K]     ->     logits float32 [1, K, V]

A static ``prefill`` takes a whole chunk and gives the logits of one row. Fewer tokens are padded at the end; what
padding writes lies at later positions, which attention does not see and later tokens overwrite. For K rows the chunk is
fed K times, which writes the same states again. Near the end of the states, where padding does not fit, tokens go one
by one; so they do with recurrences, where other rows than the last token's are wanted: what follows the wanted row
counts as padding, and a state takes each token in once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from edgec.bundle.entry_points import Limits
from edgec.ir.row_inputs import fixed_rows, token_dimension
from edgec.ir.static_methods import DECODE, PREFILL, Methods, function_name
from edgec.runtime_py.engines.executor import Array

_PADDING = 0


class StaticDecoder:
    """Static methods as an ``Executor``; their states are kept for the next call."""

    def __init__(
        self,
        methods: Methods,
        limits: Limits,
        recurrent: bool = False,
        row_inputs: Sequence[str] = (),
        slots: int = 0,
        memory_inputs: Sequence[str] = (),
    ) -> None:
        """Wrap the methods.

        Args:
            methods: ``prefill`` and ``decode``.
            limits: give the number of positions that the states hold where ``slots`` does not: the context, in whole
                chunks.
            recurrent: some states belong to recurrences.
            row_inputs: what a text with rows in the place of tokens has, as ``ir/row_inputs.py`` names it.
            slots: positions that the states hold; 0: as many as the limits say.
            memory_inputs: what is known of an encoder's source, as ``ir/memory_inputs.py`` names it.
        """
        self._methods, self._recurrent, self._adapter = methods, recurrent, ""
        self._row_inputs, self._memory_inputs = tuple(row_inputs), tuple(memory_inputs)
        self._memory: dict[str, Tensor] = {}
        self._slots = slots or -(-limits.context // methods.chunk) * methods.chunk

    def use_functions(self, adapter: str) -> None:
        """Execute the functions under an adapter from the next run on; empty: those of the model as it is."""
        self._adapter = adapter

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Feed tokens at contiguous positions; returns float32 logits [1, K, V] of the requested rows."""
        tokens, positions, *given, rows = inputs
        named = zip((*self._row_inputs, *self._memory_inputs), map(torch.from_numpy, given), strict=True)
        beside = dict(named)
        self._memory = {name: beside.pop(name) for name in self._memory_inputs}
        with torch.no_grad():
            logits = self._fed(tokens[0].tolist(), int(positions[0]), rows.tolist(), beside)
        return [np.stack(logits)[None]]

    lend = run

    @property
    def state(self) -> None:
        """None: the methods hold their states."""
        return None

    def _fed(self, tokens: list[int], start: int, rows: Sequence[int], beside: Mapping[str, Tensor]) -> list[Array]:
        once, chunk = not self._recurrent or list(rows) == [len(tokens) - 1], self._methods.chunk
        if len(tokens) > 1 and once and start + chunk <= self._slots:
            padded, wide = [*tokens, *[_PADDING] * (chunk - len(tokens))], _part(beside, 0, chunk)
            return [self._logits(PREFILL, padded, start, row, wide) for row in rows]
        single = [
            self._logits(DECODE, [token], start + place, 0, _part(beside, place, 1))
            for place, token in enumerate(tokens)
        ]
        return [single[row] for row in rows]

    def _logits(self, method: str, tokens: list[int], start: int, last: int, beside: Mapping[str, Tensor]) -> Array:
        """The logits of one row of one call, float32 [V]."""
        inputs = {"tokens": [tokens], "start": [start], "last": [last]}
        given = {name: torch.tensor(value, dtype=torch.int32) for name, value in inputs.items()}
        named = {**given, **beside, **self._memory}
        return self._methods.call(function_name(method, self._adapter), named).float().numpy()


def _part(beside: Mapping[str, Tensor], begin: int, width: int) -> dict[str, Tensor]:
    """The rows of some tokens, or of all with padding after them, as a method of fixed shapes takes them."""
    return {
        name: fixed_rows(name, value.narrow(dim, begin, min(width, value.shape[dim] - begin)), width)
        for name, value in beside.items()
        for dim in (token_dimension(name),)
    }
