"""Read the text to train on, from files, folders, JSONL or a Hugging Face data set, and hold out a part of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from edgec.errors import InputError, ToolError
from edgec.exporter.adapt.split import CHUNK_BYTES, HELD_OUT_EVERY, LEAST_CHUNK_BYTES, split

_SUFFIXES = (".txt", ".md", ".jsonl")
_FIELDS = ("text", "content")
_DATA_SET = "hf:"


@dataclass(frozen=True)
class Texts:
    """Passages to train on, and passages that are never trained on."""

    train: tuple[str, ...]
    held_out: tuple[str, ...]


def read_texts(places: Sequence[str | Path]) -> Texts:
    """Read all places and hold out a part of the text.

    What ``edgec.exporter.adapt.split`` holds out depends on the text alone. Short documents (lines of a JSONL file,
    rows of a data set, files of fewer than fifty chunks) are joined first, a blank line between them.

    Args:
        places: text files, JSONL files with a ``text`` in each line, folders of both, or a data set: ``hf:NAME``,
            ``hf:NAME:SPLIT``, ``hf:NAME:CONFIGURATION:SPLIT``.

    Raises:
        InputError: E502, a place cannot be read; E503, there is too little text.
        ToolError: E504, a data set without the library that loads it.
    """
    parts = [split(document) for document in _long_ones(d for place in places for d in _documents(str(place)))]
    texts = Texts(tuple(p for train, _ in parts for p in train), tuple(p for _, held in parts for p in held))
    if not texts.train or not texts.held_out:
        raise InputError(
            what="there is too little text to train on",
            where=", ".join(map(str, places)),
            why=f"a chunk of at least {LEAST_CHUNK_BYTES} bytes is held out, and another one is needed to train on",
            fix=f"give a text of at least {2 * LEAST_CHUNK_BYTES} bytes; a useful one has many thousands",
            code="E503",
        )
    return texts


def _long_ones(documents: Iterable[str]) -> list[str]:
    """The documents of which a fiftieth can be held out, and all shorter ones joined."""
    long: list[str] = []
    short: list[str] = []
    for document in documents:
        (long if len(document.encode()) >= HELD_OUT_EVERY * CHUNK_BYTES else short).append(document)
    return [*long, "\n\n".join(short)] if short else long


def _documents(place: str) -> Iterator[str]:
    if place.startswith(_DATA_SET):
        yield _data_set(place.removeprefix(_DATA_SET))
        return
    path = Path(place)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
        if not files:
            raise _unreadable(path, f"the folder holds no {', '.join(_SUFFIXES)}")
        yield from (_read(file) for file in files)
    else:
        yield _read(path)


def _read(file: Path) -> str:
    try:
        content = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, str(error)) from error
    return _join_lines(file, content.split("\n")) if file.suffix == ".jsonl" else content


def _join_lines(file: Path, lines: Sequence[str]) -> str:
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line) if line.strip() else {"text": ""}
            texts.append(next(row[name] for name in _FIELDS if name in row))
        except (ValueError, TypeError, StopIteration) as error:
            why = f"line {number} is not a JSON object with one of {', '.join(_FIELDS)}"
            raise _unreadable(file, why) from error
    return "\n\n".join(str(text) for text in texts if text)


def _data_set(name: str) -> str:
    """The text of a data set: ``NAME``, ``NAME:SPLIT`` or ``NAME:CONFIGURATION:SPLIT``; ``train`` by default."""
    if find_spec("datasets") is None:
        raise ToolError(
            what=f"the data set {name} cannot be loaded",
            where="--text",
            why="the library datasets is not installed",
            fix="pip install datasets, or give text files",
            code="E504",
        )
    from datasets import load_dataset

    name, *rest = name.split(":", 2)
    configuration, split = rest if len(rest) == 2 else (None, *rest) if rest else (None, "train")
    try:
        rows = load_dataset(name, configuration, split=split)
    except Exception as error:  # the library raises what the hub, the network and pyarrow raise
        raise _unreadable(Path(name), str(error)) from error
    column = next((field for field in _FIELDS if field in rows.column_names), None)
    if column is None:
        raise _unreadable(Path(name), f"the data set has no column {' or '.join(_FIELDS)}")
    return "\n\n".join(str(text) for text in rows[column] if text)


def _unreadable(path: Path, why: str) -> InputError:
    return InputError(
        what="the text to train on cannot be read",
        where=str(path),
        why=why,
        fix="give UTF-8 text, JSONL with a text in each line, a folder of them, or hf:NAME",
        code="E502",
    )
