"""What native code prints about itself on the error stream, line by line: those that the table names are held back.

ExecuTorch's attention logs a line at each call when a graph calls it outside a program: 5,000 in an export of a model
of 30 layers. Such lines pass by Python's warnings and loggers; they are met where they come out, at file descriptor 2.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from threading import Thread

_STDERR = 2


@contextmanager
def native_noise_held() -> Iterator[None]:
    """Filter file descriptor 2 in this block; Python's own error stream goes past the filter.

    A process that dies of a signal in the block may take its last lines along, so blocks are no larger than needed.
    """
    before, own = os.dup(_STDERR), sys.stderr
    read, write = os.pipe()
    os.dup2(write, _STDERR)
    os.close(write)
    sorting = Thread(target=_sort, args=(read, before), daemon=True)
    sorting.start()
    if _is_descriptor(own):
        sys.stderr = TextIOWrapper(os.fdopen(os.dup(before), "wb", 0), own.encoding, own.errors, write_through=True)
    try:
        yield
    finally:
        if sys.stderr is not own:
            sys.stderr.close()
        sys.stderr = own
        os.dup2(before, _STDERR)
        # A process that was started in the block may still hold the pipe.
        sorting.join(timeout=1)
        if not sorting.is_alive():
            os.close(before)


def _sort(read: int, out: int) -> None:
    with os.fdopen(read, "rb") as lines:
        for line in lines:
            if not _noise().match(line):
                os.write(out, line)


@cache
def _noise() -> re.Pattern[bytes]:
    table = tomllib.loads((Path(__file__).parent / "noise.toml").read_text(encoding="utf-8"))
    return re.compile("|".join(f"(?:{row['line']})" for row in table["native"]).encode())


def _is_descriptor(stream: object) -> bool:
    try:
        return isinstance(stream, TextIOWrapper) and stream.fileno() == _STDERR
    except (OSError, ValueError):
        return False
