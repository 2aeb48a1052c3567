"""A decoder in pure Python whose only memory is a state arena: what is restored wrongly, it predicts wrongly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.bundle.entry_points import Limits, StateInfo
from edgec.runtime_py.decoding.stepper import Logits, prefill_in_chunks
from edgec.runtime_py.sessions.cache_contents import Arena, CacheContents
from edgec.runtime_py.sessions.origin import origin
from edgec.runtime_py.sessions.session_file import SessionPlace

CONTEXT, VOCAB, CHUNK = 64, 97, 8
PADDING = 24


def state(name: str, slots: int, offset: int, window: int | None = None) -> StateInfo:
    fields = {"name": name, "layer": 0, "role": "key", "dtype": "uint8", "shape": [1, slots, 2, 4], "window": window}
    layout = "full" if window is None else "ring"
    return StateInfo.model_validate({**fields, "layout": layout, "slots": slots, "bytes": 8 * slots, "offset": offset})


FULL = (state("key_0", CONTEXT, PADDING),)
WITH_RING = (*FULL, state("key_1", 14, 2 * PADDING + 8 * CONTEXT, window=7))


class ArenaStepper:
    """Keeps each token in the slots of its position; predicts from what it reads back."""

    def __init__(self, states: Sequence[StateInfo] = FULL, reachable: bool = True) -> None:
        self.limits = Limits(context=CONTEXT, prefill_chunk=CHUNK, logit_rows=CHUNK)
        self.cache = CacheContents(states)
        self.computed: list[int] = []
        self._states = states
        # Garbage, as memory from the allocator may be.
        self._memory = np.full(PADDING + max(s.offset + s.bytes for s in states if s.offset), 0xA5, dtype=np.uint8)
        self._reachable = reachable

    @property
    def arena(self) -> Arena | None:
        return self._memory if self._reachable else None

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        assert self.cache.continues_at(start) and start + len(tokens) <= CONTEXT
        logits = np.zeros((len(tokens), VOCAB), dtype=np.float32)
        for position, token in enumerate(tokens, start):
            for held in self._states:
                self._slots(held)[self._slot(held, position)] = token
            logits[position - start, self._prediction(position)] = 9.0
        self.computed += range(start, start + len(tokens))
        self.cache.write(start, tokens)
        return logits[list(rows)]

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        return prefill_in_chunks(self, tokens, start)

    def reusable(self, tokens: Sequence[int]) -> int:
        return self.cache.reusable(tokens)

    def _prediction(self, position: int) -> int:
        seen = [self._visible(held, position) for held in self._states]
        return sum((i + 3) * int(token) for tokens in seen for i, token in enumerate(tokens)) % VOCAB

    def _visible(self, held: StateInfo, position: int) -> list[int]:
        first = max(0, position - held.window + 1) if held.window else 0
        return [self._slots(held)[self._slot(held, p)] for p in range(first, position + 1)]

    def _slots(self, held: StateInfo) -> np.ndarray:
        assert held.offset is not None
        return self._memory[held.offset : held.offset + held.bytes].view("<i8")

    @staticmethod
    def _slot(held: StateInfo, position: int) -> int:
        return position % held.slots


def place(states: Sequence[StateInfo] = FULL, **changes: object) -> SessionPlace:
    parts: dict[str, object] = {"artifact_sha256": "a1", "recipe": {"name": "float"}, "tokenizer": {"t": "b2"}}
    return SessionPlace(origin(**(parts | changes), states=states), tuple(states), CONTEXT)  # type: ignore[arg-type]
