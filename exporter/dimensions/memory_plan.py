"""How much memory ExecuTorch plans for the tensors of a run, from their sizes and from when they are needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

_ALIGNMENT = 16


@dataclass(frozen=True)
class TensorInMemory:
    """A tensor of a run.

    Attributes:
        bytes: of its memory.
        first: the operator that makes it, by its place in the run.
        last: the last one that reads it.
    """

    bytes: int
    first: int
    last: int

    def meets(self, other: TensorInMemory) -> bool:
        """Whether both are needed at once."""
        return self.first <= other.last and other.first <= self.last


@dataclass
class _Block:
    """A piece of the planned memory, with the tensors that share it and where each begins in it."""

    bytes: int
    held: list[tuple[int, TensorInMemory]] = field(default_factory=list)

    def place_for(self, tensor: TensorInMemory, size: int) -> int | None:
        """Where the tensor fits beside those that are needed with it; None where it does not."""
        begins = max((at + _aligned(other.bytes) for at, other in self.held if other.meets(tensor)), default=0)
        return begins if begins + size <= self.bytes else None


def planned_bytes(tensors: Iterable[TensorInMemory]) -> int:
    """Bytes of the memory that tensors share, as ``executorch.exir.memory_planning.greedy`` plans it.

    The largest come first. Each goes into the first block in which nothing else is needed at the time, else into the
    first with room behind what is, else into a block of its own.
    """
    blocks: list[_Block] = []
    for tensor in sorted(tensors, key=lambda each: -each.bytes):
        size = _aligned(tensor.bytes)
        places = [(block, place) for block in blocks if (place := block.place_for(tensor, size)) is not None]
        block, place = min(places, key=lambda found: found[1] > 0, default=(_Block(size), 0))
        if not places:
            blocks.append(block)
        block.held.append((place, tensor))
    return sum(block.bytes for block in blocks)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
