"""Run static methods over tokens, as a phone would: whole chunks, padded at the end, then single tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from edgec.ir.call_plan import Call, DecoderStep
from edgec.ir.program import Program
from edgec.ir.row_inputs import Placed, static_part

PREFILL, DECODE = "prefill", "decode"
STATIC_METHODS = (PREFILL, DECODE)
# An output of this name and a state's holds new rows of the state, or all of it after the call.
NEW_ROWS, NEW_STATE = "new_", "next_"
_PADDING = 0


class Methods(Protocol):
    """An executor of the static methods of one model, which share their states."""

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        ...

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute one method; states carry over to the next call.

        Args:
            method: ``prefill`` or ``decode``.
            inputs: ``tokens`` int32 [1, S], ``start`` int32 [1], ``last`` int32 [1]; where a text has rows in the place
                of tokens, what ``static_part`` makes of them.

        Returns:
            the logits of row ``last``, float32 [V].
        """
        ...


def function_name(method: str, adapter: str = "") -> str:
    """The artifact's function for a method under one of its adapters: ``decode_pirate``; without one ``decode``."""
    return f"{method}_{adapter}" if adapter else method


@dataclass(frozen=True)
class AdaptedMethods:
    """The methods of an artifact under one of its adapters, over the same states; ``adapter``: empty for none."""

    methods: Methods
    adapter: str

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        return self.methods.chunk

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute the method's function under the adapter."""
        return self.methods.call(function_name(method, self.adapter), inputs)


def run_static(methods: Methods, tokens: Sequence[int], plan: Sequence[Call], placed: Placed | None = None) -> Tensor:
    """Teacher-forced logits, float32 [P, V], of the last token of every call; ``placed``: rows of the whole text."""
    with torch.no_grad():
        return torch.stack([static_logits(methods, tokens, call, placed) for call in plan])


def methods_step(methods: Methods) -> DecoderStep:
    """Static methods as the step of an artifact with one method; logits of the last token only."""

    def step(ids: Tensor, positions: Tensor, rows: Tensor) -> Tensor:
        tokens, start = ids[0].tolist(), int(positions[0])
        last = static_logits(methods, [_PADDING] * start + tokens, Call(start, len(tokens), 1))
        return last.reshape(1, 1, -1)

    return step


def static_logits(methods: Methods, tokens: Sequence[int], call: Call, placed: Placed | None = None) -> Tensor:
    """The logits, float32 [V], of the last token of one call; ``placed``: rows of the whole text."""
    return methods.call(*method_inputs(tokens, call, methods.chunk, placed))


def method_inputs(
    tokens: Sequence[int], call: Call, chunk: int, placed: Placed | None = None
) -> tuple[str, dict[str, Tensor]]:
    """The method that serves a call, and its inputs; a ``prefill`` is padded to ``chunk`` tokens."""
    method, size = (DECODE, 1) if call.size == 1 else (PREFILL, chunk)
    return method, {
        **static_part(placed or {}, call.start, call.size, size),
        "tokens": _padded(tokens[call.start : call.start + call.size], size),
        "start": torch.tensor([call.start], dtype=torch.int32),
        "last": torch.tensor([call.size - 1], dtype=torch.int32),
    }


def _padded(tokens: Sequence[int], size: int) -> Tensor:
    """The tokens of one call with padding after them, int32 [1, size]."""
    return torch.tensor([[*tokens, *[_PADDING] * (size - len(tokens))]], dtype=torch.int32)


def first_chunk(
    program: Program,
    tokens: Sequence[int],
    placed: Placed | None = None,
    memory: Mapping[str, Tensor] | None = None,
) -> list[Tensor]:
    """Inputs of ``prefill`` at the beginning of a sequence; states that are inputs are empty.

    ``placed``: rows of the whole text; ``memory``: what is known of a source, by name.
    """
    size = int(program.interface.inputs[0].shape[1])  # type: ignore[arg-type]
    values = {
        **(memory or {}),
        **static_part(placed or {}, 0, min(len(tokens), size), size),
        "tokens": _padded(tokens[:size], size),
        "last": torch.tensor([min(len(tokens), size) - 1], dtype=torch.int32),
    }
    empty = [torch.zeros(t.shape, dtype=t.dtype) for t in program.interface.inputs]  # type: ignore[arg-type]
    return [values.get(t.name, zeros) for t, zeros in zip(program.interface.inputs, empty, strict=True)]


@dataclass
class GraphMethods:
    """Static methods as graphs, executed by torch.

    Attributes:
        programs: by method; all share the same states.
        states: the present contents of the states, by name.
    """

    programs: Mapping[str, Program]
    states: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with empty states, held once for all methods."""
        for program in self.programs.values():
            for state in program.interface.states:
                if state.buffer not in self.states:
                    self.states[state.buffer] = torch.zeros(state.shape, dtype=state.dtype)
                if hasattr(program.graph, state.buffer):
                    setattr(program.graph, state.buffer, self.states[state.buffer])

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        return int(self.programs[PREFILL].interface.inputs[0].shape[1])  # type: ignore[arg-type]

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a graph; new rows that it returns are written here, as a caller would."""
        return join_logits(self.outputs(method, inputs))

    def outputs(self, method: str, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """All outputs of a call by name, after their new rows were written."""
        named = named_results(self.programs[method], {**self.states, **inputs})
        write_states(self.states, named, int(inputs["start"]))
        return named


def named_results(program: Program, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A graph's outputs by name, from its inputs by name."""
    results: Any = program.graph(*(given[tensor.name] for tensor in program.interface.inputs))
    results = results if isinstance(results, tuple | list) else (results,)
    return dict(zip((tensor.name for tensor in program.interface.outputs), results, strict=True))


def write_states(states: Mapping[str, Tensor], outputs: Mapping[str, Tensor], start: int) -> None:
    """Write what a call leaves in its caller's states, as every caller has to.

    Outputs ``new_STATE`` [1, G, S, D] go to the slots ``start ..`` of that state; ``next_STATE`` takes its place.
    """
    for name, value in outputs.items():
        if name.startswith(NEW_ROWS):
            states[name.removeprefix(NEW_ROWS)][:, :, start : start + value.shape[2]] = value
        elif name.startswith(NEW_STATE) and name.removeprefix(NEW_STATE) in states:
            states[name.removeprefix(NEW_STATE)].copy_(value)


def join_logits(outputs: Mapping[str, Tensor]) -> Tensor:
    """The logits of one token, from ``logits`` or from ``logits_0``, ``logits_1``, ... side by side: float32 [V]."""
    pieces = {name: value for name, value in outputs.items() if name == "logits" or name.startswith("logits_")}
    parts = [pieces[name].reshape(-1) for name in sorted(pieces, key=lambda name: (len(name), name))]
    return torch.cat(parts).float()
