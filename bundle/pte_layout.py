"""Account for the bytes of a .pte: program, delegate graphs, padding, and every run of constant bytes."""

from __future__ import annotations

import hashlib
import math
import mmap
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.bundle.delegates import (
    OWN_DELEGATES,
    TABLE_TEXT_BYTES,
    TABLE_TEXTS,
    BlobConstant,
    PackedText,
    is_linear_text,
    linear_matrices,
    packed_texts,
    read_xnnpack_blob,
)
from edgec.bundle.entry_points import called_method
from edgec.errors import InputError

if TYPE_CHECKING:
    from executorch.exir.schema import BackendDelegate, Program

CONSTANTS, NAMED, DELEGATE = "program constants", "named data", "delegate blob"
_SCALARS: Mapping[int, tuple[str, int]] = {
    0: ("uint8", 1),
    1: ("int8", 1),
    2: ("int16", 2),
    3: ("int32", 4),
    4: ("int64", 8),
    5: ("float16", 2),
    6: ("float32", 4),
    7: ("float64", 8),
    11: ("bool", 1),
    15: ("bfloat16", 2),
}


@dataclass(frozen=True)
class StoredBytes:
    """One run of constant bytes.

    Attributes:
        key: its name in the artifact.
        place: `CONSTANTS`, `NAMED` or `DELEGATE`; equal content is shared within a place, never across places.
        sha256: of its content.
        dtype: ExecuTorch's or XNNPACK's name, "" where it is not known.
        shape: as the reader of the bytes sees it, () where it is not known.
        scale_keys: the runs that hold its scales.
        fill: one value repeated, as converters write for ``new_empty`` or a mask; a weight never looks like that.
    """

    key: str
    place: str
    bytes: int
    sha256: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    scale_keys: tuple[str, ...] = ()
    fill: bool = False


@dataclass(frozen=True)
class ArtifactLayout:
    """All bytes of an artifact: ``program + graphs + padding + stored`` is its size."""

    artifact_bytes: int
    program_bytes: int
    graph_bytes: int
    padding_bytes: int
    stored: tuple[StoredBytes, ...]


def read_layout(artifact: Path) -> ArtifactLayout:
    """Take a .pte apart; its constants are hashed through a memory map, not loaded.

    Raises:
        InputError: E139, the file is not an ExecuTorch program.
    """
    with _mapped(artifact) as data:
        return _layout(data)


def read_packed(artifact: Path) -> Iterator[tuple[PackedText, bytes]]:
    """Every packed matrix of a .pte by the delegate's text that describes it, and its bytes; one at a time is loaded.

    Raises:
        InputError: E139, the file is not an ExecuTorch program, or a text names data that it does not have.
    """
    with _mapped(artifact) as data:
        pieces = _parse(data)[1]
        texts = [
            text for delegate, blob in _blobs(pieces) if delegate.id in OWN_DELEGATES for text in packed_texts(blob)
        ]
        for text in dict.fromkeys(texts):
            yield text, pieces.named(text.key)


def read_named(artifact: Path, keys: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """The bytes of some named data of a .pte by key; one at a time is loaded.

    Raises:
        InputError: E139, the file is not an ExecuTorch program, or it has no data of one of the names.
    """
    with _mapped(artifact) as data:
        pieces = _parse(data)[1]
        for key in keys:
            yield key, pieces.named(key)


@contextmanager
def _mapped(artifact: Path) -> Iterator[mmap.mmap]:
    """A file in memory; what its reader stumbles over is a damaged artifact."""
    try:
        with artifact.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise _unreadable(artifact, error) from error


def _unreadable(artifact: Path, error: Exception) -> InputError:
    return InputError(
        "The artifact is not a readable ExecuTorch program.",
        where=str(artifact),
        why=str(error) or type(error).__name__,
        fix="export the model again",
        code="E139",
    )


def _layout(data: mmap.mmap) -> ArtifactLayout:
    program_bytes, pieces = _parse(data)
    graphs, constants = _delegates(pieces)
    stored = [*_program_constants(pieces), *_initial_states(pieces), *_named(pieces, constants), *_inside(pieces)]
    accounted = program_bytes + graphs + sum(run.bytes for run in stored)
    return ArtifactLayout(len(data), program_bytes, graphs, len(data) - accounted, tuple(stored))


def _parse(data: mmap.mmap) -> tuple[int, _Pieces]:
    """The flatbuffer's size and what it describes; its generated reader fails in any way it likes on damaged bytes."""
    from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
    from executorch.exir._serialize._program import _get_extended_header

    header = _get_extended_header(data[:64])
    size, base = (header.program_size, header.segment_base_offset) if header else (len(data), len(data))
    try:
        return size, _Pieces(data, base, _flatbuffer_to_program(data[:size]))
    except Exception as error:
        raise ValueError(f"its flatbuffer is cut or damaged: {error}") from error


@dataclass(frozen=True)
class _Pieces:
    """A .pte under inspection: its bytes, where its segments begin, and its program."""

    data: mmap.mmap
    base: int
    program: Program

    def segment(self, index: int) -> bytes:
        segment = self.program.segments[index]
        return self.data[self.base + segment.offset : self.base + segment.offset + segment.size]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {entry.key: entry.segment_index for entry in self.program.named_data or []}

    def named(self, key: str) -> bytes:
        """The named data of a key; raises KeyError where there is none."""
        return self.segment(self._places[key])

    def stored(self, key: str, place: str, content: bytes) -> StoredBytes:
        return StoredBytes(key, place, len(content), hashlib.sha256(content).hexdigest())


def _delegates(pieces: _Pieces) -> tuple[int, dict[str, BlobConstant]]:
    """Bytes of the delegates' graphs, and the constants that XNNPACK's name."""
    blobs = [read_xnnpack_blob(blob) for delegate, blob in _blobs(pieces) if delegate.id == "XnnpackBackend"]
    constants = {constant.key: constant for blob in blobs for constant in blob.constants if constant.key}
    return sum(_graph_bytes(delegate, blob) for delegate, blob in _blobs(pieces)), constants


def _graph_bytes(delegate: BackendDelegate, blob: bytes) -> int:
    """How many bytes of a blob come before its constants."""
    if delegate.id == "XnnpackBackend":
        return read_xnnpack_blob(blob).graph_bytes
    if delegate.id == "EdgecLinear" and is_linear_text(blob):
        return len(blob)
    # A few lines of text name a table or experts: anything longer, or not text, is something else.
    described = blob.startswith(TABLE_TEXTS) and len(blob) < TABLE_TEXT_BYTES and blob.isascii()
    return len(blob) if described else 0


def _blobs(pieces: _Pieces) -> Iterator[tuple[BackendDelegate, bytes]]:
    """Each distinct delegate blob once, however many delegates share it."""
    seen = set()
    for plan in pieces.program.execution_plan:
        for delegate in plan.delegates:
            place = (delegate.processed.location, delegate.processed.index)
            if place not in seen:
                seen.add(place)
                yield delegate, _blob(pieces, delegate)


def _blob(pieces: _Pieces, delegate: BackendDelegate) -> bytes:
    if delegate.processed.location.name == "SEGMENT":
        return pieces.segment(delegate.processed.index)
    return bytes(pieces.program.backend_delegate_data[delegate.processed.index].data)


def _inside(pieces: _Pieces) -> Iterator[StoredBytes]:
    """Constant bytes inside delegate blobs; a blob that cannot be looked into counts whole."""
    for number, (delegate, blob) in enumerate(_blobs(pieces)):
        if inner := blob[_graph_bytes(delegate, blob) :]:
            yield pieces.stored(f"{delegate.id} blob {number}", DELEGATE, inner)


def _named(pieces: _Pieces, constants: Mapping[str, BlobConstant]) -> Iterator[StoredBytes]:
    """Named data, once per segment: several names may lead to one."""
    names: dict[int, list[str]] = {}
    for entry in pieces.program.named_data or []:
        names.setdefault(entry.segment_index, []).append(entry.key)
    for index, keys in names.items():
        run = pieces.stored(keys[0], NAMED, pieces.segment(index))
        known = next((constants[key] for key in keys if key in constants), None)
        yield _described(run, known) if known else run


def _described(run: StoredBytes, constant: BlobConstant) -> StoredBytes:
    scales = (constant.scale_key,) if constant.scale_key else ()
    return replace(run, dtype=constant.dtype, shape=constant.shape, scale_keys=scales)


def _program_constants(pieces: _Pieces) -> Iterator[StoredBytes]:
    """The tensors that operators outside delegates read, without the padding between them."""
    segment = pieces.program.constant_segment
    offsets = segment.offsets if segment else []
    content = pieces.segment(segment.segment_index) if offsets and pieces.program.segments else b""
    for index, (dtype, size, shape) in _constant_types(pieces.program).items():
        if index < len(offsets) and content:
            inner = content[offsets[index] : offsets[index] + size]
            yield replace(pieces.stored(f"constant {index}", CONSTANTS, inner), dtype=dtype, shape=shape)


def _constant_types(program: Program) -> dict[int, tuple[str, int, tuple[int, ...]]]:
    """The dtype, bytes and shape of each constant by its index; index 0 stands for tensors without content."""
    types: dict[int, tuple[str, int, tuple[int, ...]]] = {}
    for plan in program.execution_plan:
        for value in plan.values:
            tensor = value.val
            if type(tensor).__name__ != "Tensor" or not tensor.data_buffer_idx or tensor.allocation_info is not None:
                continue
            dtype, width = _SCALARS[int(tensor.scalar_type)]
            types.setdefault(tensor.data_buffer_idx, (dtype, math.prod(tensor.sizes) * width, tuple(tensor.sizes)))
    return types


def _initial_states(pieces: _Pieces) -> Iterator[StoredBytes]:
    """The contents of mutable buffers before the first call, where they are stored at all."""
    for segment in pieces.program.mutable_data_segments or []:
        content = pieces.segment(segment.segment_index)
        if content:
            yield pieces.stored("initial states", CONSTANTS, content)


@dataclass(frozen=True)
class DelegateCall:
    """One instruction: an operator, e.g. ``aten::mul.out``, or a delegate of the backend ``name``.

    ``constants``: what an XNNPACK delegate computes with; None for operators and other backends.
    """

    name: str
    constants: tuple[BlobConstant, ...] | None = None


def method_names(artifact: Path) -> tuple[str, ...]:
    """The names of a program's methods, those that only say constants among them.

    Raises:
        InputError: E139, the file is not an ExecuTorch program.
    """
    with _mapped(artifact) as data:
        return tuple(plan.name for plan in _parse(data)[1].program.execution_plan)


def read_calls(artifact: Path) -> dict[tuple[int, int], DelegateCall]:
    """What each instruction of the method that edgec calls does, by (chain, instruction).

    Raises:
        InputError: E139, the file is not an ExecuTorch program.
    """
    with _mapped(artifact) as data:
        return dict(_calls(_parse(data)[1]))


def _calls(pieces: _Pieces) -> Iterator[tuple[tuple[int, int], DelegateCall]]:
    plans = {plan.name: plan for plan in pieces.program.execution_plan}
    plan = plans[called_method(plans)]
    for chain, steps in enumerate(plan.chains):
        for index, step in enumerate(steps.instructions):
            kernel, delegate = (getattr(step.instr_args, name, None) for name in ("op_index", "delegate_index"))
            if kernel is not None:
                operator = plan.operators[kernel]
                yield (chain, index), DelegateCall(f"{operator.name}.{operator.overload}".removesuffix(".default"))
            elif delegate is not None:
                yield (chain, index), _delegate_call(pieces, plan.delegates[delegate])


def _delegate_call(pieces: _Pieces, delegate: BackendDelegate) -> DelegateCall:
    if delegate.id == "EdgecLinear":
        return DelegateCall(delegate.id, linear_matrices(_blob(pieces, delegate)))
    if delegate.id != "XnnpackBackend":
        return DelegateCall(delegate.id)
    return DelegateCall(delegate.id, read_xnnpack_blob(_blob(pieces, delegate)).constants)
