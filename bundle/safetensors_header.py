"""The header of a safetensors file, held against the file: every size and offset is checked before it is used.

Format: 8 bytes little-endian header length, a JSON object, then the tensors' bytes without gaps
(https://huggingface.co/docs/safetensors).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

LENGTH_BYTES: Final = 8
METADATA: Final = "__metadata__"


@dataclass(frozen=True)
class HeaderEntry:
    """A stored tensor: ``dtype`` as safetensors names it, and its bytes in the file, from ``begin`` up to ``end``."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def header_length(prefix: bytes, size: int, limit: int) -> int:
    """The bytes of a header, from the first bytes of its file.

    Args:
        prefix: the first ``LENGTH_BYTES`` of the file, or fewer where it ends before.
        size: of the file.
        limit: the most that a header may have.

    Raises:
        ValueError: the file is too short, or the header too long.
    """
    if len(prefix) < LENGTH_BYTES:
        raise ValueError(f"a header needs {LENGTH_BYTES} bytes, the file has {size}")
    length = int.from_bytes(prefix, "little")
    if length > limit:
        raise ValueError(f"the header claims {length} bytes, more than the format allows ({limit})")
    if LENGTH_BYTES + length > size:
        raise ValueError(f"expected at least {LENGTH_BYTES + length} bytes for the header, the file has {size}")
    return length


def header_entries(
    header: Mapping[str, Any], item_bytes: Mapping[str, int], data: int, size: int
) -> dict[str, HeaderEntry]:
    """The tensors of a header without its metadata, in its order.

    Args:
        header: as it was parsed; nothing in it is trusted.
        item_bytes: the dtypes that are known, and the bytes of one value.
        data: where the tensors' bytes begin in the file.
        size: of the file.

    Raises:
        ValueError: an entry is malformed, contradicts itself, or the tensors do not fill the file one after the other.
    """
    entries = {name: _entry(name, raw, item_bytes, data) for name, raw in header.items()}
    position = data
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != position:
            kind = "overlaps" if entry.begin < position else "leaves a gap after"
            raise ValueError(f"tensor {name!r} {kind} its predecessor (byte {entry.begin}, expected {position})")
        position = entry.end
    if position != size:
        raise ValueError(f"expected {position} bytes, the file has {size}")
    return entries


def _entry(name: str, raw: object, item_bytes: Mapping[str, int], data: int) -> HeaderEntry:
    if not isinstance(raw, dict) or set(raw) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"the header's entry for {name!r} is malformed")
    dtype = raw["dtype"]
    if not isinstance(dtype, str) or dtype not in item_bytes:
        raise ValueError(f"tensor {name!r} has an unknown dtype {dtype!r}")
    shape, offsets = _naturals(raw["shape"]), _naturals(raw["data_offsets"])
    if shape is None or offsets is None or len(offsets) != 2:
        raise ValueError(f"tensor {name!r} has a malformed shape or offset")
    needed, held = prod(shape) * item_bytes[dtype], offsets[1] - offsets[0]
    if held != needed:
        raise ValueError(f"tensor {name!r} needs {needed} bytes for its shape, the header gives it {held}")
    return HeaderEntry(dtype, shape, data + offsets[0], data + offsets[1])


def _naturals(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    good = all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**63 for item in value)
    return tuple(value) if good else None
