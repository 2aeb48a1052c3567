"""Which delegates a .pte names, and which constants those of XNNPACK and of edgec's linear kernels refer to.

XNNPACK's blob is a header, a flatbuffer with the graph and, in older artifacts, constant bytes. Only four tables of the
flatbuffer are read (executorch/backends/xnnpack/serialization/schema.fbs), by hand: its Python readers are not in the
ExecuTorch wheel, and decompiling with flatc writes numbers that are not JSON.

edgec's delegate is text, written by ``backends/cpu/linear/text.py`` and read on the device by
``engine/kernels/region/region_text.cpp``, which checks it whole; here only its matrices are of interest.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

OWN_DELEGATES = frozenset({"EdgecLinear", "EdgecEmbedding", "EdgecExperts"})
XNNPACK = "XnnpackBackend"
ON_CPUS = OWN_DELEGATES | {XNNPACK}
"""The backends of artifacts for CPUs."""
# The file's extended header: a magic word, its own length, the program's size.
_PROGRAM_MAGIC, _MAGIC_AT, _SIZE_AT, _SIZE_END = b"eh00", 8, 16, 24
_HEADER = struct.Struct("<4x4sHIIIQ")
_MAGIC = b"XH00"
_DTYPES = (
    *("invalid", "float32", "float16", "qint8", "quint8", "qint32", "qcint8", "qcint32", "qcint4"),
    *("qdint8", "qbint4", "qpint8", "int32", "pfp32", "bfloat16"),
)
_QUANTISED_VALUE, _PER_CHANNEL, _PER_GROUP = 2, 1, 4
_SCALE_BUFFER = {_PER_CHANNEL: 2, _PER_GROUP: 4}
_START, _MOST_BYTES, _MOST_NUMBER = b"edgec.linear 3\n", 1 << 20, 1 << 26
_MATRIX_WORDS = 9
# A few lines name a token table or experts.
TABLE_TEXTS, TABLE_TEXT_BYTES = (b"edgec.embedding=", b"edgec.experts="), 512


@dataclass(frozen=True)
class PackedText:
    """A matrix of few bits as a delegate's text describes it (docs/kernels.md).

    ``key`` names its bytes among the program's named data; ``group``: values that share a scale, 0: a row; a code
    stands for ``step * code - offset``; ``scales``: the form of scales and minimums; ``expert_rows``: rows of one of
    several experts, each of which fills whole blocks.
    """

    key: str
    block_rows: int
    rows: int
    width: int
    group: int
    bits: int
    step: int
    offset: int
    scales: str
    expert_rows: int | None = None

    @property
    def rows_of_expert(self) -> int:
        """The rows from one expert to the next; all of them where there are no experts."""
        return self.rows if self.expert_rows is None else -(-self.expert_rows // self.block_rows) * self.block_rows


@dataclass(frozen=True)
class BlobConstant:
    """A constant tensor of the graph; keys name entries of the program's named data, "" for bytes inside the blob."""

    dtype: str
    shape: tuple[int, ...]
    key: str
    scale_key: str = ""


@dataclass(frozen=True)
class XnnpackBlob:
    """A blob's contents: the graph's bytes, the constant bytes after it, and the constants that the graph names."""

    graph_bytes: int
    constant_bytes: int
    constants: tuple[BlobConstant, ...]


@dataclass(frozen=True)
class _Table:
    """A table of a flatbuffer, at a position of its bytes."""

    data: bytes
    position: int

    def _field(self, slot: int) -> int | None:
        vtable = self.position - _number(self.data, self.position, "<i")
        if 4 + 2 * slot >= _number(self.data, vtable, "<H"):
            return None
        offset = _number(self.data, vtable + 4 + 2 * slot, "<H")
        return self.position + offset if offset else None

    def number(self, slot: int, kind: str) -> int:
        at = self._field(slot)
        return 0 if at is None else _number(self.data, at, kind)

    def table(self, slot: int) -> _Table:
        at = self._field(slot)
        if at is None:
            raise ValueError(f"the delegate's flatbuffer lacks field {slot}")
        return _Table(self.data, at + _number(self.data, at, "<I"))

    def tables(self, slot: int) -> list[_Table]:
        return [_Table(self.data, at + _number(self.data, at, "<I")) for at in self._items(slot)]

    def numbers(self, slot: int) -> tuple[int, ...]:
        return tuple(_number(self.data, at, "<I") for at in self._items(slot))

    def text(self, slot: int) -> str:
        at = self._field(slot)
        if at is None:
            return ""
        start = at + _number(self.data, at, "<I")
        return self.data[start + 4 : start + 4 + _number(self.data, start, "<I")].decode()

    def _items(self, slot: int) -> range:
        at = self._field(slot)
        if at is None:
            return range(0)
        start = at + _number(self.data, at, "<I")
        return range(start + 4, start + 4 + 4 * _number(self.data, start, "<I"), 4)


def _number(data: bytes, at: int, kind: str) -> int:
    return int(struct.unpack_from(kind, data, at)[0])


def read_xnnpack_blob(blob: bytes) -> XnnpackBlob:
    """Read a delegate blob of the XNNPACK backend.

    Raises:
        ValueError: the bytes are not such a blob.
    """
    try:
        magic, _, offset, size, _, constant_bytes = _HEADER.unpack_from(blob)
        if magic != _MAGIC:
            raise ValueError("the delegate blob does not begin with XNNPACK's header")
        graph = blob[offset : offset + size]
        root = _Table(graph, _number(graph, 0, "<I"))
        keys = [entry.text(2) for entry in root.tables(8)]
        constants = tuple(constant for value in root.tables(2) if (constant := _constant(value, keys)))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"the delegate blob is cut or damaged: {error}") from error
    return XnnpackBlob(len(blob) - constant_bytes, constant_bytes, constants)


def _constant(value: _Table, keys: list[str]) -> BlobConstant | None:
    """A value of the graph as a constant, or None where it is computed at run time (buffer 0)."""
    quantised = value.number(0, "<B") == _QUANTISED_VALUE
    tensor = value.table(1).table(0) if quantised else value.table(1)
    buffer = tensor.number(3, "<I")
    if not buffer:
        return None
    dtype = _DTYPES[tensor.number(0, "<h")]
    return BlobConstant(dtype, tensor.numbers(2), keys[buffer], _scale_key(value.table(1), keys) if quantised else "")


def _scale_key(quantised: _Table, keys: list[str]) -> str:
    slot = _SCALE_BUFFER.get(quantised.number(1, "<B"))
    return keys[quantised.table(2).number(slot, "<I")] if slot is not None else ""


def is_linear_text(blob: bytes) -> bool:
    """Whether a delegate's bytes are a text of edgec's linear kernels, and nothing else."""
    return blob.startswith(_START) and blob.endswith(b"\nend\n") and len(blob) <= _MOST_BYTES and blob.isascii()


def linear_matrices(blob: bytes) -> tuple[BlobConstant, ...]:
    """The matrices of a text: ``intB`` for B bits as dtype, [rows, width] as shape; none where it is not one."""
    return tuple(BlobConstant(f"int{one.bits}", (one.rows, one.width), one.key) for one in _of_linear_text(blob))


def packed_texts(blob: bytes) -> tuple[PackedText, ...]:
    """The packed matrices that a text of one of edgec's delegates describes; none where it is not such a text."""
    return _of_linear_text(blob) or _of_table_text(blob)


def _of_linear_text(blob: bytes) -> tuple[PackedText, ...]:
    lines = [line.split(" ") for line in blob.decode("ascii").splitlines()] if is_linear_text(blob) else []
    widths: list[int] = []
    block_rows, width, matrices = 0, 0, []
    for kind, *words in lines:
        numbers = [_whole(word) for word in words]
        if kind == "block_rows" and words:
            block_rows = numbers[0]
        elif kind == "widths":
            widths = numbers
        elif kind == "group" and words and 0 <= numbers[0] < len(widths):
            width = widths[numbers[0]]
        elif kind == "matrix" and len(words) == _MATRIX_WORDS and 0 < numbers[1] <= _MOST_NUMBER and width > 0:
            _, rows, group, bits, step, offset = numbers[:6]
            matrices.append(PackedText(words[7], block_rows, rows, width, group, bits, step, offset, words[6]))
    return tuple(matrices)


def _of_table_text(blob: bytes) -> tuple[PackedText, ...]:
    """The one matrix of a packed token table, or of experts: lines NAME=VALUE."""
    if not blob.startswith(TABLE_TEXTS) or len(blob) >= TABLE_TEXT_BYTES or not blob.isascii():
        return ()
    fields = dict(line.split("=", 1) for line in blob.decode("ascii").splitlines() if "=" in line)
    names = ("block_rows", "rows", "width", "group", "bits", "step", "offset")
    numbers = [_whole(fields.get(name, "")) for name in names]
    complete = min(numbers) >= 0 and "scales" in fields and "data" in fields
    if not complete:
        return ()
    block_rows, rows, width, group, bits, step, offset = numbers
    scales, expert_rows = fields["scales"], _whole(fields["expert_rows"]) if "expert_rows" in fields else None
    return (PackedText(fields["data"], block_rows, rows, width, group, bits, step, offset, scales, expert_rows),)


def _whole(word: str) -> int:
    """A whole number of a text; -1 for anything else."""
    return int(word) if word.isdigit() and len(word) < 10 else -1


def named_delegates(artifact: Path) -> frozenset[str]:
    """The backends whose names stand in a .pte's program; one that stands there by accident only costs its library."""
    if not artifact.is_file() or artifact.stat().st_size == 0:
        return frozenset()
    with artifact.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        known = data[_MAGIC_AT : _MAGIC_AT + len(_PROGRAM_MAGIC)] == _PROGRAM_MAGIC
        end = int.from_bytes(data[_SIZE_AT:_SIZE_END], "little") if known else len(data)
        return frozenset(name for name in ON_CPUS if data.find(name.encode(), 0, min(end, len(data))) >= 0)
