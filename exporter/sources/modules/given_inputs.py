"""Examples of what a module will see, from ``--inputs``: arrays named as its inputs, images, sounds, or a folder.

    faces.npz            x [64, 3, 48, 48]                    64 examples of an input x [1, 3, 48, 48]
    speech/a.npz ...     wave [1, 16000], state [2, 1, 64]    one example a file
    pages/a.npy ...      [1, 1, 32, 256]                      one example a file, of a module with one input
    photos/a.jpg ...     brought into the input that the factory declares (``given_media.py``)

Arrays are what the app will pass: preprocessed, in the module's shapes and types. Pickled arrays are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgec.bundle.input_preparation import Preparations
from edgec.errors import InputError
from edgec.exporter.sources.files.plain_files import is_plain, plain_files
from edgec.exporter.sources.modules.given_media import is_media, media_rows
from edgec.runtime_py.functions.prepared_inputs import spread

MOST_EXAMPLES = 64
"""More are not judged; these are spread evenly over what was given."""
_ONLY, _ARRAYS = "", (".npz", ".npy")
_MOST_BYTES = 1 << 32
NamedArrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class GivenInputs:
    """What was read of ``--inputs``.

    Attributes:
        place: the file or the folder.
        files: the arrays of each file by name, of which that of a ``.npy`` file has none; or an image or a sound.
        digest: the sha256 of all values, names and shapes, and of the declarations.
        declared: how images and sounds become inputs.
    """

    place: Path
    files: tuple[NamedArrays | Path, ...] = field(repr=False, compare=False)
    digest: str
    declared: Preparations = field(default_factory=dict, compare=False)


def read_inputs(place: Path, declared: Preparations | None = None) -> GivenInputs:
    """Read an array's file, note an image or a sound, or do so with all of a folder, in name order.

    Args:
        place: a file, or a folder.
        declared: how images and sounds become inputs, by input.

    Raises:
        InputError: E831, there is nothing of that kind; E125, it is neither file nor folder.
    """
    inside = plain_files(place, "*.*") if place.is_dir() else (place,) if is_plain(place) else ()
    found = inside if not place.is_dir() else tuple(file for file in inside if file.suffix in _ARRAYS or is_media(file))
    if not found:
        raise _unreadable(place, "there is no .npz or .npy file, no image and no .wav file")
    if sum(file.stat().st_size for file in found) > _MOST_BYTES:
        raise _unreadable(
            place, f"its files have more than {_MOST_BYTES >> 30} GiB; {MOST_EXAMPLES} examples are enough"
        )
    files, digest = tuple(file if is_media(file) else _arrays(file) for file in found), hashlib.sha256()
    for file in files:
        _add(file, digest)
    for name, how in sorted((declared or {}).items()):
        digest.update(f"{name} {how.model_dump_json()}\n".encode())
    return GivenInputs(place, files, digest.hexdigest(), declared or {})


def _add(file: NamedArrays | Path, digest: hashlib._Hash) -> None:
    """Let a digest depend on all that a file holds."""
    if isinstance(file, Path):
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
        return
    for name, array in sorted(file.items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())


def _arrays(file: Path) -> NamedArrays:
    try:
        read = np.load(file, allow_pickle=False)
        arrays = {_ONLY: read} if isinstance(read, np.ndarray) else {name: read[name] for name in read.files}
    except Exception as error:  # numpy, zipfile and zlib fail each in their own way on a damaged file.
        raise _unreadable(file, " ".join(str(error).split())[:200] or type(error).__name__) from error
    if not arrays or not all(array.dtype.kind in "biuf" for array in arrays.values()):
        raise _unreadable(file, "it holds no arrays of numbers")
    return arrays


def bind_inputs(
    given: GivenInputs, names: Sequence[str], examples: Sequence[Tensor]
) -> tuple[tuple[tuple[Tensor, ...], ...], int]:
    """The examples as tuples of the module's inputs, at most 64 of them, and how many were given.

    Args:
        given: what was read.
        names: of the module's inputs, in order.
        examples: the module's example inputs, whose shapes and dtypes are those of its artifact.

    Raises:
        InputError: E832 names, E833 shapes, E834 dtypes, E835 values that are not finite, E837 one example alone, E838
            examples that are all the same; E852 and those of ``media_rows``, images and sounds.
    """
    rows, count = _all_rows(given, names, examples)
    if len(rows) < 2:
        raise _fault("E837", given.place, "there is one example alone", "it says nothing of the others", _SEVERAL)
    chosen = tuple(spread(rows, MOST_EXAMPLES))
    _check_values(given.place, names, chosen)
    return chosen, count


def _all_rows(
    given: GivenInputs, names: Sequence[str], examples: Sequence[Tensor]
) -> tuple[list[tuple[Tensor, ...]], int]:
    """The examples of all files, and how many there are; of many images and sounds, some from everywhere are read."""
    media = [file for file in given.files if isinstance(file, Path)]
    read = spread(media, MOST_EXAMPLES)
    kept = frozenset(read)
    rows, count = [], len(media) - len(read)
    for file in given.files:
        if isinstance(file, Path):
            found, each = (
                media_rows(file, given.declared, names, examples, -(-MOST_EXAMPLES // len(read)))
                if file in kept
                else ([], 0)
            )
        else:
            found = _rows(given.place, file, names, examples)
            each = len(found)
        rows += found
        count += each
    return rows, count


def _rows(
    place: Path, arrays: NamedArrays, names: Sequence[str], examples: Sequence[Tensor]
) -> list[tuple[Tensor, ...]]:
    """The examples of one file."""
    if set(arrays) == {_ONLY} and len(names) == 1:
        arrays = {names[0]: arrays[_ONLY]}
    if set(arrays) != set(names):
        what = f"the arrays are called {', '.join(sorted(arrays)) or 'nothing'}, the inputs {', '.join(names)}"
        fix = "name the arrays as forward's parameters: numpy.savez(FILE, x=examples)"
        raise _fault("E832", place, what, "each input needs its own array", fix)
    columns = [_column(place, name, arrays[name], value) for name, value in zip(names, examples, strict=True)]
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        counted = ", ".join(f"{name} {len(column)}" for name, column in zip(names, columns, strict=True))
        raise _fault("E833", place, f"the inputs have different numbers of examples: {counted}", "", _SEVERAL)
    return list(zip(*columns, strict=True))


def _column(place: Path, name: str, array: NDArray[Any], example: Tensor) -> list[Tensor]:
    """The examples of one input: one of its shape, or several along the first axis."""
    wanted = torch.from_numpy(np.zeros(0, array.dtype)).dtype if array.dtype.kind != "u" else None
    if wanted is None or not _fits(array, example):
        what = f"{name} holds {array.dtype}, the module reads {str(example.dtype).removeprefix('torch.')}"
        fix = "save what the app passes to the module, after its preprocessing (for example images as floats)"
        raise _fault("E834", place, what, "edgec converts floats to floats and whole numbers to whole numbers", fix)
    shape, values = tuple(example.shape), torch.from_numpy(np.ascontiguousarray(array))
    if tuple(values.shape) == shape:
        parts = [values]
    elif tuple(values.shape[1:]) == shape:
        parts = list(values)
    elif shape[:1] == (1,) and tuple(values.shape[1:]) == shape[1:]:
        parts = list(values.split(1))
    else:
        what = f"{name} has the shape {list(values.shape)}, the module reads {list(shape)}"
        raise _fault("E833", place, what, "an artifact's shapes are fixed", _SEVERAL)
    return [part.to(example.dtype).clone() for part in parts]


def _fits(array: NDArray[Any], example: Tensor) -> bool:
    """Whether values are of the input's kind and in the range of its type."""
    if example.is_floating_point():
        return array.dtype.kind == "f"
    if example.dtype is torch.bool or array.dtype.kind == "b":
        return example.dtype is torch.bool and array.dtype.kind == "b"
    limits = torch.iinfo(example.dtype)
    return array.dtype.kind == "i" and (not array.size or (array.min() >= limits.min and array.max() <= limits.max))


def _check_values(place: Path, names: Sequence[str], rows: Sequence[tuple[Tensor, ...]]) -> None:
    for index, row in enumerate(rows):
        for name, value in zip(names, row, strict=True):
            if value.is_floating_point() and not bool(value.isfinite().all()):
                what = f"{name} of example {index + 1} holds NaN or infinities"
                raise _fault("E835", place, what, "nothing can be compared on it", "leave that example out")
    if all(all(map(torch.equal, rows[0], row)) for row in rows[1:]):
        raise _fault("E838", place, f"all {len(rows)} examples are the same", "they count as one", _SEVERAL)
    floats = [value for row in rows for value in row if value.is_floating_point() and value.numel() > 1]
    if floats and all(bool((value == value.flatten()[0]).all()) for value in floats):
        what = "every example is constant: all its values are the same"
        raise _fault("E838", place, what, "a network's answer to silence or one colour shows no fault", _SEVERAL)


_SEVERAL = "give several examples of what the app will see: 16 or more, each in the shape that the module reads"


def _fault(code: str, place: Path, what: str, why: str, fix: str) -> InputError:
    return InputError(what=f"--inputs: {what}.", where=str(place), why=why, fix=fix, code=code)


def _unreadable(place: Path, why: str) -> InputError:
    fix = "give a .npz file with an array for each input, or a folder of .npz or .npy files, images or sounds"
    return _fault("E831", place, "the examples cannot be read", why, fix)
