"""A model as GGUF: one file, or all parts of one that was split, with one table of metadata and one of tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.bundle.gguf_faults import gguf_error
from edgec.bundle.gguf_header import GgufHeader, GgufTensor, is_gguf, read_gguf_header
from edgec.bundle.gguf_values import shortened
from edgec.errors import InputError
from edgec.exporter.sources.files.model_folder import CONFIG
from edgec.exporter.sources.files.plain_files import is_plain, plain_files

_COUNT, _NUMBER, _TENSORS = "split.count", "split.no", "split.tensors.count"
# llama.cpp names parts so, counting from 1; the metadata counts from 0.
_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_MOST_PARTS, _SHOWN = 1000, 3


@dataclass(frozen=True)
class GgufFile:
    """A model's metadata and tensors.

    Attributes:
        files: the file, or its parts in order.
        metadata: by key; numbers, texts, truth values and lists of these.
        tensors: by name.
    """

    files: tuple[Path, ...]
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]

    @property
    def name(self) -> str:
        """The file's name without what says that it is a part, and without its ending."""
        part = _PART.fullmatch(self.files[0].name)
        return part["stem"] if part else self.files[0].stem


def read_gguf(file: Path) -> GgufFile:
    """Read the headers of a GGUF file and, where it is a part, of all other parts beside it.

    Args:
        file: the file, or any part.

    Raises:
        InputError: E800 to E807, the file or a part is damaged; E808, parts are missing or do not belong together.
    """
    header = read_gguf_header(file)
    count = _count(header)
    if count == 1:
        return GgufFile((file,), header.metadata, {tensor.name: tensor for tensor in header.tensors})
    parts = [read_gguf_header(part) for part in _part_files(file, count)]
    for number, part in enumerate(parts):
        if _count(part) != count or part.metadata.get(_NUMBER) != number:
            raise _parts_fault(part.file, f"it says that it is part {part.metadata.get(_NUMBER)} of {_count(part)}")
    return GgufFile(tuple(part.file for part in parts), parts[0].metadata, _joined(parts))


def gguf_of(path: Path) -> Path | None:
    """The GGUF file that a path stands for: itself, or the one model of a folder without a config.json; else None.

    Raises:
        InputError: E114, the folder holds several.
    """
    if path.is_dir():
        return None if is_plain(path / CONFIG) else gguf_in_folder(path)
    return path if is_gguf(path) else None


def gguf_in_folder(folder: Path) -> Path | None:
    """The one GGUF model of a folder, by its first part; None where there is none.

    Raises:
        InputError: E114, there are several.
    """
    files = plain_files(folder, "*.gguf")
    firsts = [folder / name for name in first_parts([file.name for file in files])]
    if len(firsts) > 1:
        raise InputError(
            what="The folder holds several GGUF models.",
            where=str(folder),
            why=f"{', '.join(file.name for file in firsts[:_SHOWN])}{' and more' if len(firsts) > _SHOWN else ''}",
            fix="Pass the path of one of them.",
            code="E114",
        )
    return next(iter(firsts or files), None)


def first_parts(files: Sequence[str]) -> list[str]:
    """Of names or paths of files, those of GGUF models: whole ones, and the first parts of those that were split."""
    models = [file for file in files if file.lower().endswith(".gguf")]
    parts = ((file, _PART.fullmatch(file.rpartition("/")[2])) for file in models)
    return [file for file, part in parts if part is None or int(part["number"]) == 1]


def _count(header: GgufHeader) -> int:
    count = header.metadata.get(_COUNT, 1)
    if type(count) is not int or not 0 <= count <= _MOST_PARTS:
        raise _parts_fault(header.file, f"{_COUNT} is {str(count)[:40]}")
    return count or 1


def _part_files(file: Path, count: int) -> tuple[Path, ...]:
    part = _PART.fullmatch(file.name)
    if part is None or int(part["count"]) != count:
        raise _parts_fault(file, f"it is one of {count} parts, and its name does not end in -00001-of-{count:05}.gguf")
    files = tuple(file.with_name(f"{part['stem']}-{number + 1:05}-of-{count:05}.gguf") for number in range(count))
    missing = [each.name for each in files if not is_plain(each)]
    if missing:
        raise _parts_fault(file, f"{len(missing)} of {count} parts are absent: {', '.join(missing[:_SHOWN])}")
    return files


def _joined(parts: Sequence[GgufHeader]) -> dict[str, GgufTensor]:
    tensors: dict[str, GgufTensor] = {}
    for part in parts:
        for tensor in part.tensors:
            if tensor.name in tensors:
                raise _parts_fault(part.file, f"{shortened(tensor.name)} is in another part too")
            tensors[tensor.name] = tensor
    stated = parts[0].metadata.get(_TENSORS, len(tensors))
    if stated != len(tensors):
        raise _parts_fault(parts[0].file, f"the parts hold {len(tensors)} tensors; {str(stated)[:40]} are stated")
    return tensors


def _parts_fault(file: Path, why: str) -> InputError:
    fix = "Put all parts of one download into one folder, under the names that they were published with."
    return gguf_error("E808", file, "The parts of the GGUF model are missing or do not belong together.", why, fix)
