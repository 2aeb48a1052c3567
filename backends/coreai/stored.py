"""The bytes of a .aimodel that are weights: the resource section of its MLIR bytecode, taken as a whole.

A bytecode file is a header and a row of sections, each with a number, a length and its bytes (mlir.llvm.org/docs/
BytecodeFormat); constants above a size lie in the resource section. Which tensor is where the sections do not say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from edgec.bundle.pte_layout import ArtifactLayout, StoredBytes
from edgec.errors import InputError

PLACE = "Core AI resources"
_MAGIC, _RESOURCES, _ALIGNED = b"ML\xefR", 5, 0x80


def model_layout(model: Path) -> ArtifactLayout:
    """Split the bytes of a .aimodel into weights and program.

    Raises:
        InputError: E407, its program is not MLIR bytecode.
    """
    files = {path: path.stat().st_size for path in model.rglob("*") if path.is_file()}
    runs = [run for path in files if path.suffix == ".mlirb" for run in _resources(path)]
    total, stored = sum(files.values()), sum(run.bytes for run in runs)
    return ArtifactLayout(total, total - stored, 0, 0, tuple(runs))


def _resources(program: Path) -> Iterator[StoredBytes]:
    data = program.read_bytes()
    try:
        for number, start, length in _sections(data):
            if number == _RESOURCES:
                digest = hashlib.sha256(data[start : start + length]).hexdigest()
                yield StoredBytes(f"{program.stem} constants", PLACE, length, digest)
    except (IndexError, ValueError) as error:
        raise InputError(
            what="The artifact is not a readable Core AI model.",
            where=str(program),
            why=str(error),
            fix="export the model again",
            code="E407",
        ) from error


def _sections(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Number, first byte and length of each section."""
    if not data.startswith(_MAGIC):
        raise ValueError("it does not begin as MLIR bytecode does")
    _, place = _number(data, len(_MAGIC))
    place = data.index(b"\0", place) + 1
    while place < len(data):
        kind = data[place]
        length, place = _number(data, place + 1)
        if kind & _ALIGNED:
            alignment, place = _number(data, place)
            place += -place % max(1, alignment)
        yield kind & ~_ALIGNED, place, length
        place += length


def _number(data: bytes, place: int) -> tuple[int, int]:
    """A variable-length integer and where it ends: as many trailing zero bits in the first byte as bytes follow it."""
    first = data[place]
    more = 8 if first == 0 else (first & -first).bit_length() - 1
    if more == 8:
        return int.from_bytes(data[place + 1 : place + 9], "little"), place + 9
    whole = int.from_bytes(data[place : place + 1 + more], "little")
    return whole >> (more + 1), place + 1 + more
