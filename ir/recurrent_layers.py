"""LSTM and GRU over a whole sequence, one direction of one layer at a time, as lowered modules call them.

The C++ kernels (``engine/kernels/recurrent_layers.cpp``) compute the same, under ``edgec::NAME.out``.

    edgec::lstm  given [B, T, 4 H], hidden and cell [B, H], weight [4 H, H], scale?, backwards  -> [B, T + 1, H]
    edgec::gru   given [B, T, 3 H], hidden [B, H], weight [3 H, H], bias [3 H]?, scale?, backwards -> [B, T, H]

``given`` is what the input adds to the gates of every step, in torch's order (input, forget, cell, output; reset,
update, new): a linear layer over all steps at once, to which an LSTM's biases belong. A GRU's ``bias`` is that of the
hidden state's part. Values are float32; ``weight`` is float32, or int8 with a ``scale`` [rows] for each row. The states
are those before the first step taken: the last one of ``given`` where ``backwards``. Row t of a result is the hidden
state at step t of ``given``, in either direction; behind an LSTM's lies its last cell state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from edgec.ir.operators import NAMESPACE, Definition, define_with_out


def lstm(given: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, scale: Tensor | None, backwards: bool) -> Tensor:
    """Long short-term memory: what is kept of the cell, what enters it, and what of it is shown."""
    matrix, rows = _matrix(weight, scale), {}
    for step in _steps(given, backwards):
        enter, keep, new, show = (given[:, step] + hidden @ matrix.t()).chunk(4, -1)
        cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(new)
        hidden = torch.sigmoid(show) * torch.tanh(cell)
        rows[step] = hidden
    return torch.stack([*(rows[step] for step in sorted(rows)), cell], 1)


def gru(
    given: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, scale: Tensor | None, backwards: bool
) -> Tensor:
    """A gated recurrent unit: how much of the hidden state is kept, and how much of it makes the new one."""
    matrix, rows = _matrix(weight, scale), {}
    for step in _steps(given, backwards):
        own = hidden @ matrix.t() if bias is None else hidden @ matrix.t() + bias
        (reset, keep, new), (own_reset, own_keep, own_new) = given[:, step].chunk(3, -1), own.chunk(3, -1)
        fresh = torch.tanh(new + torch.sigmoid(reset + own_reset) * own_new)
        hidden = fresh + torch.sigmoid(keep + own_keep) * (hidden - fresh)
        rows[step] = hidden
    return torch.stack([rows[step] for step in sorted(rows)], 1)


def _matrix(weight: Tensor, scale: Tensor | None) -> Tensor:
    return weight if scale is None else weight.float() * scale.reshape(-1, 1)


def _steps(given: Tensor, backwards: bool) -> range:
    count = given.shape[1]
    return range(count - 1, -1, -1) if backwards else range(count)


def _with_cell(given: Tensor, hidden: Tensor, *_: Any) -> Tensor:
    return given.new_empty((given.shape[0], given.shape[1] + 1, hidden.shape[1]))


def _by_step(given: Tensor, hidden: Tensor, *_: Any) -> Tensor:
    return given.new_empty((*given.shape[:2], hidden.shape[1]))


_LSTM = "Tensor given, Tensor hidden, Tensor cell, Tensor weight, Tensor? scale, bool backwards"
_GRU = "Tensor given, Tensor hidden, Tensor weight, Tensor? bias, Tensor? scale, bool backwards"
_OPERATORS: dict[str, Definition] = {"lstm": (_LSTM, lstm, _with_cell), "gru": (_GRU, gru, _by_step)}
# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
define_with_out(_LIBRARY, _OPERATORS)
LSTM = torch.ops.edgec.lstm.default
GRU = torch.ops.edgec.gru.default
WEIGHT: Mapping[Any, int] = {LSTM: 3, GRU: 2}
"""The place of the matrix among the arguments of each operator."""
SCALE: Mapping[Any, int] = {LSTM: 4, GRU: 4}
"""The place of its scales."""
