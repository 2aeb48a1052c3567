"""Panics of libraries in Rust, which reach Python as what ``except Exception`` lets through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a panic as a RuntimeError; an interrupt and the like stay what they are."""
    try:
        yield
    except BaseException as cause:
        if type(cause).__module__ != "pyo3_runtime":  # its PanicException can be imported from nowhere
            raise
        raise RuntimeError(" ".join(str(cause).split()) or "it panicked") from cause
