"""The file of a KV state: a safetensors file whose metadata names the model that it belongs to.

Layout: 8 bytes little-endian header length, a JSON header, then ``tokens`` (int64) and the used slots of every state
in the manifest's order, without gaps (https://huggingface.co/docs/safetensors; every reader of that format reads it).
It is written and read here because the states go from the arena to the file and back without a copy in between.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from edgec.bundle.atomic import write_file
from edgec.bundle.chat_template import Message, check_messages
from edgec.bundle.entry_points import StateInfo
from edgec.bundle.limited_json import parse_json
from edgec.bundle.part import JsonCount
from edgec.errors import InputError
from edgec.runtime_py.sessions.cache_contents import Arena, used_bytes, used_slots
from edgec.runtime_py.sessions.origin import Origin

_LENGTH_BYTES, _PIECE = 8, 1 << 20
_HEADER_LIMIT = 64 << 20
_METADATA, _TOKENS, _CHECKSUM = "__metadata__", "tokens", "checksum"
_DTYPES = {
    **{"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "bool": "BOOL"},
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
}
Header = dict[str, dict[str, Any]]


class _Metadata(BaseModel):
    """The file's metadata; safetensors holds only texts there."""

    model_config = ConfigDict(strict=True)

    origin: str
    fingerprint: str
    high_water: Annotated[str, Field(pattern=r"^\d{1,10}$")]
    messages: str
    checksum: str


class _Tensor(BaseModel):
    dtype: str
    shape: Annotated[list[JsonCount], Field(min_length=1)]
    data_offsets: tuple[JsonCount, JsonCount]


_TENSORS = TypeAdapter(dict[str, _Tensor])
_ORIGIN = TypeAdapter(dict[str, str])


@dataclass(frozen=True)
class Contents:
    """A sequence: its token ids, the highest end its KV cache has had, and the conversation it belongs to."""

    tokens: tuple[int, ...]
    high_water: int
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class SessionPlace:
    """The model that a state must belong to before it may be restored here.

    Attributes:
        origin: the origin of the states that this model computes.
        states: where they lie; empty where the runtime keeps them out of reach.
        context: the most tokens of a sequence here.
        vocab_size: ids are below it; None where it is unknown.
    """

    origin: Origin
    states: tuple[StateInfo, ...]
    context: int
    vocab_size: int | None = None


@dataclass(frozen=True)
class SessionFile:
    """A file that belongs to this model.

    Attributes:
        path: the file's path.
        contents: the sequence.
        fingerprint: sha256 (hex) over origin and tokens.
        states: the states that it holds; none when it was written where states are out of reach.
        data: the first byte after the header.
    """

    path: Path
    contents: Contents
    fingerprint: str
    states: tuple[StateInfo, ...]
    data: int
    header: Header = field(repr=False)

    def check(self) -> None:
        """Read everything once and compare it with the checksum.

        Raises:
            InputError: E192.
        """
        with _damage(self.path), self.path.open("rb") as file:
            file.seek(self.data)
            checksum = _checksum(self.header, iter(lambda: file.read(_PIECE), b""))
            if checksum != self.header[_METADATA][_CHECKSUM]:
                raise ValueError("its contents do not match its checksum")

    def read_into(self, arena: Arena, length: int) -> None:
        """Copy the slots of the first ``length`` tokens into an arena.

        Raises:
            InputError: E192, the file has changed since it was opened; the arena then holds no sequence.
        """
        with _damage(self.path), open(self.path, "rb", buffering=0) as file:
            for state in self.states:
                view = used_bytes(arena, state, used_slots(state, length, self.contents.high_water))
                file.seek(self.data + self.header[state.name]["data_offsets"][0])
                if file.readinto(view.data) != view.nbytes:
                    raise ValueError("it ends early")


def write_session_file(path: Path, place: SessionPlace, contents: Contents, arena: Arena | None) -> int:
    """Write a sequence and its state, whole or not at all.

    Args:
        path: replaced when it exists.
        place: the model it belongs to.
        contents: the sequence.
        arena: uint8 [bytes]; None writes the tokens alone, to be computed again.

    Returns:
        Bytes written.

    Raises:
        InputError: E121 or E122; an earlier file is kept then.
    """
    states = place.states if arena is not None else ()
    pieces: list[bytes | memoryview] = [np.asarray(contents.tokens, dtype="<i8").tobytes()]
    if arena is not None:
        slots = [used_slots(state, len(contents.tokens), contents.high_water) for state in states]
        pieces += [used_bytes(arena, state, n).data for state, n in zip(states, slots, strict=True)]
    header: Header = {_METADATA: _metadata(place.origin, contents), **_entries(contents, states)}
    header[_METADATA][_CHECKSUM] = _checksum(header, pieces)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    write_file(path, len(text).to_bytes(_LENGTH_BYTES, "little"), text, *pieces)
    return _LENGTH_BYTES + len(text) + sum(len(piece) for piece in pieces)


def open_session_file(path: Path, place: SessionPlace) -> SessionFile:
    """Read a file's header and refuse it unless it belongs to this model; the states are read later.

    Raises:
        InputError: E192 unreadable, truncated or damaged, E193 of another model, recipe, tokenizer, layout or format.
    """
    with _damage(path), path.open("rb") as file:
        header = _read_header(file)
        metadata = header[_METADATA]
        unlike = place.origin.differences(_ORIGIN.validate_python(parse_json(metadata["origin"].encode())))
    if unlike:
        raise _foreign(path, unlike)
    with _damage(path), path.open("rb") as file:
        data = _LENGTH_BYTES + int.from_bytes(file.read(_LENGTH_BYTES), "little")
        file.seek(data)
        contents = _contents(file, header, place)
        states = place.states if len(header) > len((_METADATA, _TOKENS)) else ()
        if {name: entry for name, entry in header.items() if name != _METADATA} != _entries(contents, states):
            raise ValueError("its tensors are not the states of this model")
        _check_size(file, data, header)
        if metadata["fingerprint"] != place.origin.fingerprint(contents.tokens):
            raise ValueError("its fingerprint is not that of its tokens")
    return SessionFile(path, contents, metadata["fingerprint"], states, data, header)


def _metadata(origin: Origin, contents: Contents) -> dict[str, Any]:
    """The metadata as strings, which is all that safetensors allows."""
    return {
        "origin": json.dumps(origin.parts, sort_keys=True),
        "fingerprint": origin.fingerprint(contents.tokens),
        "high_water": str(contents.high_water),
        "messages": json.dumps(contents.messages, ensure_ascii=False),
    }


def _entries(contents: Contents, states: Sequence[StateInfo]) -> Header:
    """The tensors in file order."""
    count = len(contents.tokens)
    entries: Header = {_TOKENS: {"dtype": "I64", "shape": [count], "data_offsets": [0, 8 * count]}}
    end = 8 * count
    for state in states:
        slots = used_slots(state, count, contents.high_water)
        begin, end = end, end + slots * (state.bytes // state.slots)
        shape = [1, slots, *state.shape[2:]]
        entries[state.name] = {"dtype": _DTYPES[state.dtype], "shape": shape, "data_offsets": [begin, end]}
    return entries


def _checksum(header: Header, pieces: Iterable[bytes | memoryview]) -> str:
    """The sha256 over the header without the checksum, and the data."""
    metadata = {name: value for name, value in header[_METADATA].items() if name != _CHECKSUM}
    digest = hashlib.sha256(json.dumps({**header, _METADATA: metadata}, sort_keys=True).encode())
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _read_header(file: BinaryIO) -> Header:
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if length > min(_HEADER_LIMIT, os.fstat(file.fileno()).st_size - _LENGTH_BYTES):
        raise ValueError("its header is longer than the file")
    header: Header = parse_json(file.read(length))
    _Metadata.model_validate(header[_METADATA])
    _TENSORS.validate_python({name: entry for name, entry in header.items() if name != _METADATA})
    return header


def _contents(file: BinaryIO, header: Header, place: SessionPlace) -> Contents:
    """Read the sequence; ``file`` stands at the first byte of the data."""
    count, high_water = int(header[_TOKENS]["shape"][0]), int(header[_METADATA]["high_water"])
    if not 0 <= count <= high_water <= place.context:
        raise ValueError(f"it holds {count} tokens and has held {high_water}, the context has {place.context}")
    tokens = np.frombuffer(file.read(8 * count), dtype="<i8").tolist()
    if len(tokens) != count:
        raise ValueError("it ends early")
    if tokens and not 0 <= min(tokens) <= max(tokens) < (place.vocab_size or 1 << 31):
        raise ValueError(f"it holds ids from {min(tokens)} to {max(tokens)}, the vocabulary has {place.vocab_size}")
    messages = check_messages(parse_json(header[_METADATA]["messages"].encode()))
    return Contents(tuple(tokens), high_water, tuple(messages))


def _check_size(file: BinaryIO, data: int, header: Header) -> None:
    wanted = data + max(entry["data_offsets"][1] for name, entry in header.items() if name != _METADATA)
    size = os.fstat(file.fileno()).st_size
    if size != wanted:
        raise ValueError(f"it has {size:,} bytes instead of {wanted:,}")


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file raises into E192."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as cause:
        raise InputError(
            "The saved KV state cannot be read.",
            where=str(path),
            why=str(cause)[:200],
            fix="restore it from a copy, or compute it again",
            code="E192",
        ) from cause


def _foreign(path: Path, parts: Sequence[str]) -> InputError:
    return InputError(
        "The saved KV state belongs to something else.",
        where=str(path),
        why=f"these differ: {', '.join(parts)}",
        fix="use it with the bundle it was saved from, or compute it again",
        code="E193",
    )
