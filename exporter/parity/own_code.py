"""What transformers' code raises while it computes the reference, told as a fault of the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from edgec.errors import EdgecError, InputError


@contextmanager
def own_code(model: Any, given: str) -> Iterator[None]:
    """Run a model's own code, which fails on sizes that no checkpoint has and on faults of transformers.

    Args:
        model: transformers' model; the error names its class.
        given: what it reads: ``a text``.

    Raises:
        InputError: E769, it fails.
    """
    try:
        yield
    except (EdgecError, MemoryError):
        raise
    except Exception as error:  # Whatever the code of a model raises.
        raise InputError(
            f"The model's own code fails on {given}.",
            where=type(model).__name__,
            why=f"{type(error).__name__}: {error}"[:300],
            fix="run the model in transformers with this config; edgec --debug shows where it failed",
            code="E769",
        ) from error
