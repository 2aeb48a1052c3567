"""What native code prints about itself on the error stream, line by line: those that the table names are held back.

ExecuTorch's attention logs a line at each call when a graph calls it outside a program: 5,000 in an export of a model
of 30 layers. Such lines pass by Python's warnings and loggers; they are met where they come out, at file descriptor 2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from threading import Thread

from edgec.quiet import noise

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
            if not noise().native.match(line):
                os.write(out, line)


def _is_descriptor(stream: object) -> bool:
    try:
        return isinstance(stream, TextIOWrapper) and stream.fileno() == _STDERR
    except (OSError, ValueError):
        return False
