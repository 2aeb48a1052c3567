"""What an encoder needs while it runs, found by running its code once over fake tensors, without memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from edgec.exporter.capture.attention import masks_left_out
from edgec.exporter.dimensions.memory_plan import TensorInMemory, planned_bytes

InputForms = Mapping[str, tuple[tuple[int, ...], torch.dtype]]
"""An encoder's inputs by name: shape and dtype."""
_SOFTMAX = (torch.ops.aten._softmax.default, torch.ops.aten._safe_softmax.default)


@dataclass(frozen=True)
class EncoderRun:
    """A run of an encoder.

    Attributes:
        fewest_bytes: memory planned for its tensors where activation functions and sums write over what they read,
            and attention keeps no scores.
        most_bytes: the same where every operator writes to a place of its own.
        positions: of the states that it returns, float32 [1, T, C]; 0 for outputs of other shapes.
    """

    fewest_bytes: int
    most_bytes: int
    positions: int


def run_of(encoder: nn.Module, inputs: InputForms) -> EncoderRun | None:
    """Run an encoder on the meta device; None where its code does not run there."""
    from torch._subclasses import FakeTensorMode

    fake, tape = FakeTensorMode(allow_non_fake_inputs=True), _Tape()
    try:
        with fake, torch.device("meta"), torch.no_grad(), masks_left_out(encoder):
            given = {name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype) in inputs.items()}
            tape.begin(given.values())
            with tape:
                made = encoder(**given)
    except Exception:  # Model code of any family fails in its own way where values are needed.
        return None
    tape.end(made.values() if isinstance(made, Mapping) else (made,))
    states = getattr(made, "last_hidden_state", None)
    positions = states.shape[1] if isinstance(states, Tensor) and states.dim() == 3 else 0
    fewest, most = (planned_bytes(tensors.values()) for tensors in (tape.written_over(), tape.separate()))
    return EncoderRun(fewest, most, positions)


@dataclass(frozen=True)
class _Step:
    """An operator: the tensors that it reads and makes, by the numbers of their memory.

    Attributes:
        writes_over: it may write what it makes over what it reads.
        scores: what it makes are the scores of attention.
    """

    reads: tuple[int, ...]
    makes: tuple[int, ...]
    writes_over: bool = False
    scores: bool = False


class _Tape(TorchDispatchMode):
    """Notes what operators read and make of all that depends on the inputs; views share memory, and count once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # Kept, so that no other memory gets the address of one.
        self._memories: list[torch.UntypedStorage] = []
        self._numbers: dict[int, int] = {}
        self._steps: list[_Step] = []

    def begin(self, inputs: Iterable[Tensor]) -> None:
        """Begin with the inputs, which the caller keeps."""
        for tensor in inputs:
            self._number(tensor)

    def end(self, outputs: Iterable[Any]) -> None:
        """End with what is returned: it is needed to the end."""
        self._steps.append(_Step(self._known(outputs), ()))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        reads = self._known((*args, *(kwargs or {}).values()))
        if reads:
            seen = len(self._memories)
            numbers = dict.fromkeys(self._number(tensor) for tensor in _tensors((made,)))
            fresh, softmax = tuple(number for number in numbers if number >= seen), func in _SOFTMAX
            self._steps.append(_Step(reads, fresh, softmax or torch.Tag.pointwise in func.tags, softmax))
        return made

    def _known(self, values: Iterable[Any]) -> tuple[int, ...]:
        keys = [tensor.untyped_storage()._cdata for tensor in _tensors(values)]
        return tuple(dict.fromkeys(self._numbers[key] for key in keys if key in self._numbers))

    def _number(self, tensor: Tensor) -> int:
        memory = tensor.untyped_storage()
        if memory._cdata not in self._numbers:
            self._numbers[memory._cdata] = len(self._memories)
            self._memories.append(memory)
        return self._numbers[memory._cdata]

    def separate(self) -> dict[int, TensorInMemory]:
        """All tensors but the inputs, each in a memory of its own, by number."""
        made: dict[int, TensorInMemory] = {}
        for place, step in enumerate(self._steps):
            made |= {number: TensorInMemory(self._memories[number].nbytes(), place, place) for number in step.makes}
            made |= {number: replace(made[number], last=place) for number in step.reads if number in made}
        return made

    def written_over(self) -> dict[int, TensorInMemory]:
        """All tensors but the inputs and scores; what an operator writes over what it reads last takes its memory."""
        held, scores = self.separate(), set[int]()
        for place, step in enumerate(self._steps):
            for number in step.makes if step.writes_over else ():
                over = _last_read(step, place, held[number].bytes, held)
                held[number] = replace(held[number], first=held.pop(over).first if over is not None else place)
                scores |= {number} if step.scores or over in scores else set()
        return {number: tensor for number, tensor in held.items() if number not in scores}


def _last_read(step: _Step, place: int, size: int, held: Mapping[int, TensorInMemory]) -> int | None:
    """A tensor of this size that nothing reads after this step."""
    read = [number for number in step.reads if number in held and held[number].bytes == size]
    return next((number for number in read if held[number].last == place), None)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
