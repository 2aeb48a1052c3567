"""Libraries held back while edgec works: what they print that nobody can act on is listed, with reasons, in noise.toml.

Everything else comes through: errors, the user's own warnings and log records, what a library says for the first time.
"""

from __future__ import annotations

import builtins
import logging
import re
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, cast


@dataclass(frozen=True)
class LogNoise:
    """Records of one logger, below an error, whose message begins as ``message`` says."""

    logger: str
    message: re.Pattern[str]

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is printed."""
        return record.levelno >= logging.ERROR or not self.message.match(record.getMessage())


@dataclass(frozen=True)
class Noise:
    """The table: filters of loggers, filters of warnings as Python's ``warnings`` holds them, lines of native code."""

    logs: tuple[LogNoise, ...]
    warnings: tuple[tuple[Any, ...], ...]
    native: re.Pattern[bytes]


@cache
def noise() -> Noise:
    """The table, read once."""
    table = tomllib.loads((Path(__file__).parent / "noise.toml").read_text(encoding="utf-8"))
    logs = (LogNoise(row["logger"], re.compile(row.get("message", ""))) for row in table["log"])
    native = re.compile("|".join(f"(?:{row['line']})" for row in table["native"]).encode())
    return Noise(tuple(logs), tuple(map(_warning, table["warning"])), native)


def _warning(row: dict[str, str]) -> tuple[Any, ...]:
    message, module = (re.compile(row[name], re.IGNORECASE) if name in row else None for name in ("message", "module"))
    return ("ignore", message, getattr(builtins, row["category"]), module, 0)


class _LastResort(logging.Handler):
    """On the root logger of a program that has set up no logging: what Python does then, so that no library sets it up.

    As without a handler, a record that a logger below handles itself is not printed twice.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Print warnings and errors as Python's last resort does."""
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None and logger is not logging.root:
            if logger.handlers:
                return
            logger = logger.parent
        if logging.lastResort is not None and record.levelno >= logging.lastResort.level:
            logging.lastResort.handle(record)


class _Held:
    """How many blocks are inside ``quiet``, over all threads, and what the first of them added."""

    def __init__(self) -> None:
        self.lock, self.blocks = Lock(), 0
        self.added: list[tuple[Any, ...]] = []
        self.resort = _LastResort()

    def enter(self) -> None:
        with self.lock:
            self.blocks += 1
            if self.blocks == 1:
                filters = cast("list[tuple[Any, ...]]", warnings.filters)
                self.added = [each for each in noise().warnings if each not in filters]
                filters[:0] = self.added
                for each in noise().logs:
                    logging.getLogger(each.logger).addFilter(each)
                if not logging.root.handlers:
                    logging.root.addHandler(self.resort)

    def leave(self) -> None:
        with self.lock:
            self.blocks -= 1
            if self.blocks == 0:
                filters = cast("list[tuple[Any, ...]]", warnings.filters)
                filters[:] = [each for each in filters if each not in self.added]
                for each in noise().logs:
                    logging.getLogger(each.logger).removeFilter(each)
                logging.root.removeHandler(self.resort)


_HELD = _Held()


@contextmanager
def quiet() -> Iterator[None]:
    """Hold the table's lines back in this block, or in the function that this decorates; blocks may be nested.

    What the caller's program has set up for logging and warnings is as before when the last block ends.
    """
    _HELD.enter()
    try:
        yield
    finally:
        _HELD.leave()
