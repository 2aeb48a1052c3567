"""How other people's runtimes call a decoder: one method of any length over two stacked caches.

    inputIds [1,S], causalMask [1,1,1,E], keyCache and valueCache [N,1,G,C,D]  ->  logits [1,S,V]

A runtime says by the size of its second input how far a text goes: with ``beyond`` 1, E is a token more than it has. So
the call's first position is E - beyond - S, whatever the input's values are.

``edgec::call_positions(tokens, sized, beyond)``: positions of the call's tokens, int32 [S].
``edgec::stacked_rows(cache, rows, start, layer)``: the cache [N,1,G,C,D] with ``rows`` [1,G,S,D] in a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from edgec.ir.operators import NAMESPACE
from edgec.ir.program import Program
from edgec.ir.static_methods import named_results

MAIN = "main"
_CHUNK = 64


@dataclass(frozen=True)
class StatefulNames:
    """What a runtime calls the inputs and states of its decoders.

    Attributes:
        tokens: int32 [1, S].
        sized: the input whose last dimension says where the call ends.
        rank: its dimensions, all 1 but the last.
        dtype: its dtype; zeros as float16, positions as int32.
        beyond: by how much it is longer than the text.
        key: the state of keys.
        value: the state of values.
        logits: the output, [1, S, V].
        least: the fewest positions of a context that the runtime opens.
    """

    tokens: str
    sized: str
    rank: int
    dtype: torch.dtype
    beyond: int
    key: str = "keyCache"
    value: str = "valueCache"
    logits: str = "logits"
    least: int = 2

    def shape(self, end: int) -> list[int]:
        """The shape of ``sized`` in a call after which ``end`` tokens were read."""
        return [1] * (self.rank - 1) + [end + self.beyond]

    def sized_input(self, end: int) -> Tensor:
        """What the runtime gives in such a call: zeros, or all positions so far."""
        shape = self.shape(end)
        if self.dtype.is_floating_point:
            return torch.zeros(shape, dtype=self.dtype)
        return torch.arange(shape[-1], dtype=self.dtype).reshape(shape)


# Hugging Face's LanguageModelWithStatefulKVCache and Apple's CoreAISequentialEngine, by the layouts' names.
STATEFUL: Mapping[str, StatefulNames] = {
    # ``LanguageModel`` ends the app where its input takes at most one token more than it must.
    "swift-transformers": StatefulNames("inputIds", "causalMask", 4, torch.float16, 1, least=4),
    "coreai-models": StatefulNames("input_ids", "position_ids", 2, torch.int32, 0),
}


class StatefulFunction(Protocol):
    """An executor of one function over states that its caller holds."""

    def fresh_state(self) -> dict[str, Tensor]:
        """States as they are before the first call."""
        ...

    def run(self, inputs: Mapping[str, Tensor], state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Execute the function; it leaves its writes in ``state``."""
        ...


@dataclass
class StatefulMethods:
    """A function of any length under edgec's protocol of static methods, which executes both calls.

    Attributes:
        function: executes it.
        names: those of its runtime.
        chunk: the width to which callers pad what they give at once; 1: no further than it is.
        states: their present values, by name.
    """

    function: StatefulFunction
    names: StatefulNames
    chunk: int = _CHUNK
    states: dict[str, Tensor] = field(default_factory=dict)

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute the function; both methods are it."""
        self.states = self.states or self.function.fresh_state()
        start = int(inputs["start"])
        # Padding has no place behind the last position.
        tokens = inputs["tokens"][:, : self.states[self.names.key].shape[3] - start]
        given = {self.names.tokens: tokens, self.names.sized: self.names.sized_input(start + tokens.shape[1])}
        return self.function.run(given, self.states)[self.names.logits][0, int(inputs["last"])].float()


def stateful_names(inputs: Sequence[str]) -> StatefulNames | None:
    """The names of the runtime whose decoders take these inputs; None for functions of edgec's own."""
    return next((names for names in STATEFUL.values() if {names.tokens, names.sized} == set(inputs)), None)


@dataclass(frozen=True)
class StatefulGraph:
    """A graph, executed by torch; ``program`` holds its states as buffers."""

    program: Program

    def fresh_state(self) -> dict[str, Tensor]:
        """States of zeros."""
        return {each.buffer: torch.zeros(each.shape, dtype=each.dtype) for each in self.program.interface.states}

    def run(self, inputs: Mapping[str, Tensor], state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Execute the graph over the caller's states."""
        for name, value in state.items():
            setattr(self.program.graph, name, value)
        return named_results(self.program, inputs)


def call_positions(tokens: Tensor, sized: Tensor, beyond: int) -> Tensor:
    """The positions of the call's tokens."""
    end = sized.shape[-1] - beyond
    return torch.arange(end - tokens.shape[1], end, dtype=torch.int32)


def stacked_rows(cache: Tensor, rows: Tensor, start: Tensor, layer: int) -> Tensor:
    """The caches with new rows of one layer."""
    result, at = cache.clone(), int(start)
    result[layer, :, :, at : at + rows.shape[2]] = rows
    return result


def _positions_like(tokens: Tensor, sized: Tensor, beyond: int) -> Tensor:
    return tokens.new_empty(tokens.shape[1], dtype=torch.int32)


def _cache_like(cache: Tensor, rows: Tensor, start: Tensor, layer: int) -> Tensor:
    return torch.empty_like(cache)


def _define(library: torch.library.Library) -> None:
    schemas: Mapping[str, tuple[str, Callable[..., Tensor], Callable[..., Tensor]]] = {
        "call_positions": ("Tensor tokens, Tensor sized, int beyond", call_positions, _positions_like),
        "stacked_rows": ("Tensor cache, Tensor rows, Tensor start, int layer", stacked_rows, _cache_like),
    }
    for name, (arguments, meaning, fake) in schemas.items():
        library.define(f"{name}({arguments}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(name, meaning, "CPU")
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)


# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_define(_LIBRARY)
CALL_POSITIONS = torch.ops.edgec.call_positions.default
STACKED_ROWS = torch.ops.edgec.stacked_rows.default
