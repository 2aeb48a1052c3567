"""Whether an answer is still wanted: whoever waits for another process asks now and then, and stops waiting if not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Check = Callable[[], None]


def _patient() -> None:
    """Wait as long as it takes."""


_CHECK: Final[ContextVar[Check]] = ContextVar("check", default=_patient)


@contextmanager
def while_wanted(check: Check) -> Iterator[None]:
    """Ask ``check``, which raises where the answer is not wanted any more, during every wait in here."""
    before = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(before)


def require_wanted() -> None:
    """Raise what the check of whoever waits raises."""
    _CHECK.get()()
