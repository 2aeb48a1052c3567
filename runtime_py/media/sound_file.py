"""Read a WAV file as one channel of float32 samples; everything is checked before any memory is taken.

RIFF WAVE with integers of 8, 16, 24 or 32 bits or floats of 32 bits; up to 8 channels, which are averaged. The format
is Microsoft's "Multiple Channel Audio Data and WAVE Files" (2007).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from edgec.errors import InputError

Samples = NDArray[np.float32]
SoundFile = Path | str | bytes
"""A WAV file, or all bytes of one."""
SoundSource = SoundFile | Samples
"""A WAV file, its bytes, or float samples [N] in -1..1 at the model's rate."""
_UNNAMED: Final = Path("sound.wav")
LONGEST_S = 4 * 3600
"""The longest sound in seconds; four hours at 16 kHz take 0.9 GB in float32."""
_MOST_CHANNELS = 8
_INTEGERS, _FLOATS, _EXTENSIBLE = 1, 3, 0xFFFE
_HEADER, _CHUNK, _FORMAT, _SUBFORMAT = 12, 8, 16, 26
_SCALES = {8: 1 << 7, 16: 1 << 15, 24: 1 << 23, 32: 1 << 31}


@dataclass(frozen=True)
class _Format:
    """What the header says about each sample."""

    kind: int
    channels: int
    rate: int
    bits: int

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of all channels."""
        return self.channels * self.bits // 8


def read_sound(source: SoundFile, sampling_rate: int) -> Samples:
    """The samples of a WAV file, float32 [N] in -1..1, channels averaged.

    Args:
        source: the file.
        sampling_rate: Hz that the model expects; another rate is refused.

    Raises:
        InputError: E177, no such file, not a WAV file, cut off, or in another form; E178, it is empty, too long, or of
            another rate.
    """
    with _opened(source) as (stream, size, path):
        described, start, length = _located(stream, size, path)
        _check(described, length, sampling_rate, path)
        stream.seek(start)
        return _samples(stream.read(length - length % described.frame_bytes), described)


def sound_length(source: SoundFile, sampling_rate: int) -> int:
    """How many samples ``read_sound`` would give, by the header alone; raises as it does."""
    with _opened(source) as (stream, size, path):
        described, _, length = _located(stream, size, path)
        _check(described, length, sampling_rate, path)
        return length // described.frame_bytes


@contextmanager
def _opened(source: SoundFile) -> Iterator[tuple[BinaryIO, int, Path]]:
    """A file's contents, how many bytes they are, and its name in messages. Raises InputError E177."""
    path = _UNNAMED if isinstance(source, bytes) else Path(source)
    try:
        if isinstance(source, bytes):
            yield BytesIO(source), len(source), path
            return
        with path.open("rb") as stream:
            yield stream, path.stat().st_size, path
    except OSError as error:
        raise _unreadable(path, str(error.strerror or error)) from error


def check_samples(samples: Samples, sampling_rate: int) -> None:
    """Refuse samples that cannot hold speech.

    Raises:
        InputError: E178, there are none, too many, or one is not finite; E152, they are not a row of numbers.
    """
    if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
        what, fix = f"The sound is {samples.dtype} {list(samples.shape)}.", "give float samples [N] in -1..1"
        raise InputError(what, where="sound", fix=fix, code="E152")
    _check_length(samples.size, sampling_rate, "sound")
    if not np.isfinite(samples).all():
        raise InputError(
            "The sound holds values that are not finite.", where="sound", fix="give samples in -1..1", code="E178"
        )


def _located(stream: BinaryIO, size: int, path: Path) -> tuple[_Format, int, int]:
    """The format, and where the samples begin and how many bytes they take."""
    header = stream.read(_HEADER)
    if len(header) < _HEADER or header[:4] != b"RIFF" or header[8:] != b"WAVE":
        raise _unreadable(path, "it does not begin as RIFF WAVE files do")
    described: _Format | None = None
    place = _HEADER
    while place + _CHUNK <= size:
        stream.seek(place)
        name, length = struct.unpack("<4sI", stream.read(_CHUNK))
        place += _CHUNK
        if name == b"fmt ":
            described = _described(stream.read(min(length, 64)), path)
        if name == b"data":
            if described is None:
                raise _unreadable(path, "its samples come before their format")
            if length > size - place:
                raise _unreadable(path, f"{length:,} bytes of samples are announced and {size - place:,} are there")
            return described, place, length
        place += length + length % 2
    raise _unreadable(path, "it holds no samples" if described else "it is cut off within its header")


def _described(chunk: bytes, path: Path) -> _Format:
    if len(chunk) < _FORMAT:
        raise _unreadable(path, "it is cut off within its header")
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", chunk[:_FORMAT])
    if kind == _EXTENSIBLE and len(chunk) >= _SUBFORMAT:
        kind = struct.unpack("<H", chunk[_SUBFORMAT - 2 : _SUBFORMAT])[0]
    known = (kind == _INTEGERS and bits in _SCALES) or (kind == _FLOATS and bits == 32)
    if not known or not 1 <= channels <= _MOST_CHANNELS or rate == 0:
        raise _unreadable(path, f"format {kind} with {bits} bits, {channels} channels and {rate} Hz is not read")
    return _Format(kind, channels, rate, bits)


def _check(described: _Format, length: int, sampling_rate: int, path: Path) -> None:
    _check_length(length // described.frame_bytes, described.rate, str(path))
    if described.rate != sampling_rate:
        raise InputError(
            f"The sound has {described.rate:,} samples a second, and the model expects {sampling_rate:,}.",
            where=str(path),
            fix=f"convert it: ffmpeg -i {path.name} -ac 1 -ar {sampling_rate} converted.wav",
            code="E178",
        )


def _check_length(count: int, rate: int, where: str) -> None:
    if count == 0:
        raise InputError("The sound is empty.", where=where, fix="give a file with samples", code="E178")
    if count > LONGEST_S * rate:
        raise InputError(
            f"The sound lasts {count / rate / 3600:.1f} hours.",
            where=where,
            why=f"at most {LONGEST_S // 3600} hours are read at a time, which bounds the memory",
            fix="cut it into parts",
            code="E178",
        )


def _samples(data: bytes, described: _Format) -> Samples:
    channels = _values(data, described).reshape(-1, described.channels)
    mixed: Samples = channels.mean(1, dtype=np.float32) if described.channels > 1 else channels[:, 0]
    return np.where(np.isfinite(mixed), mixed, np.float32(0)) if described.kind == _FLOATS else mixed


def _values(data: bytes, described: _Format) -> Samples:
    if described.kind == _FLOATS:
        return np.frombuffer(data, "<f4").astype(np.float32)
    if described.bits == 8:
        return np.frombuffer(data, np.uint8).astype(np.float32) / np.float32(_SCALES[8]) - np.float32(1)
    if described.bits == 24:
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return (wide.view("<i4")[:, 0] / np.float32(_SCALES[32])).astype(np.float32)
    return np.frombuffer(data, f"<i{described.bits // 8}").astype(np.float32) / np.float32(_SCALES[described.bits])


def _unreadable(path: Path, why: str) -> InputError:
    return InputError(
        "The sound cannot be read.",
        where=str(path),
        why=why,
        fix=f"convert it: ffmpeg -i {path.name} -ac 1 -ar 16000 converted.wav",
        code="E177",
    )
