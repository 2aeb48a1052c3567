"""Map files into memory in pieces, so that a piece is released with the last tensor that is a view of it."""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakValueDictionary

import torch

from edgec.exporter.sources.files.safetensors_header import TensorEntry, corrupt
from edgec.quiet import quiet

_PIECE_BYTES = 64 << 20
# Each piece keeps a file descriptor open; processes commonly have 1024.
_MOST_PIECES = 256


@dataclass(frozen=True)
class MappedPieces:
    """Tensors of one file as views of mapped pieces of it.

    Attributes:
        file: a safetensors file.
        starts: the first byte of each piece, ascending; a piece ends where the next one begins.
        end: the end of the last piece, exclusive.
    """

    file: Path
    starts: Sequence[int]
    end: int
    _mapped: WeakValueDictionary[int, mmap.mmap] = field(default_factory=WeakValueDictionary, repr=False, compare=False)

    @classmethod
    def of(cls, file: Path, entries: Iterable[TensorEntry]) -> MappedPieces:
        """Cut a file between tensors, so that every tensor is within one piece."""
        placed = sorted((entry.offset, entry.offset + entry.nbytes) for entry in entries if entry.nbytes)
        total = placed[-1][1] - placed[0][0]
        starts: list[int] = []
        for start, end in placed:
            if not starts or end - starts[-1] > max(_PIECE_BYTES, total // _MOST_PIECES):
                starts.append(start)
        return cls(file, starts, placed[-1][1])

    def tensor(self, entry: TensorEntry) -> torch.Tensor:
        """A view of the file; writing to it changes a private copy of the page, never the file.

        Raises:
            InputError: E105, the file shrank.
        """
        piece = bisect_right(self.starts, entry.offset) - 1
        mapped = self._mapped.get(piece)
        if mapped is None:
            mapped = self._mapped[piece] = self._map(piece)
        return _view(mapped, entry, entry.offset - _page(self.starts[piece]))

    def _map(self, piece: int) -> mmap.mmap:
        first = _page(self.starts[piece])
        end = self.starts[piece + 1] if piece + 1 < len(self.starts) else self.end
        with self.file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if end > size:
                raise corrupt(self.file, f"the file shrank to {size} bytes while it was in use")
            return _map_file(stream.fileno(), end - first, first)


def _page(offset: int) -> int:
    return offset - offset % mmap.ALLOCATIONGRANULARITY


def _map_file(descriptor: int, length: int, offset: int) -> mmap.mmap:
    try:
        # Private and writable: what is written stays in memory, the file never changes.
        return mmap.mmap(descriptor, length, access=mmap.ACCESS_COPY, offset=offset)
    except OSError:
        # Linux refuses a writable private mapping larger than the machine's memory, but not a read-only one.
        return mmap.mmap(descriptor, length, access=mmap.ACCESS_READ, offset=offset)


def _view(mapped: mmap.mmap, entry: TensorEntry, offset: int) -> torch.Tensor:
    with quiet():  # torch remarks on read-only memory
        raw = torch.frombuffer(mapped, dtype=torch.uint8, count=entry.nbytes, offset=offset)
    aligned = raw if entry.offset % entry.dtype.itemsize == 0 else raw.clone()
    return aligned.view(entry.dtype).view(entry.shape)


def pieces_by_file(entries: Mapping[str, TensorEntry]) -> dict[Path, MappedPieces]:
    """The pieces of every file that holds a tensor with content."""
    files: dict[Path, list[TensorEntry]] = {}
    for entry in entries.values():
        if entry.nbytes and entry.file is not None:
            files.setdefault(entry.file, []).append(entry)
    return {file: MappedPieces.of(file, held) for file, held in files.items()}
