"""A measuring job for a device, as plain data that any transport can carry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.bundle.entry_points import FORWARD, FORWARD_ROWS
from edgec.errors import InputError

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


@dataclass(frozen=True)
class Job:
    """One measuring job.

    Attributes:
        kind: ``load``, ``memory``, ``speed``, ``profile`` or ``sustained``; ``app`` is all of them, run by an app on
            the device.
        state: the page cache before a load, ``cold`` or ``warm``.
        seconds: how long a sustained run takes.
        cool_down_s: pause before each generation.
        cores: the CPU cores that may be used, like ``4-7``; None: all.
        adapter: the file of an adapter that is added while tokens are computed; None: none.
    """

    kind: str
    bundle: str
    prompt_tokens: int
    new_tokens: int
    threads: int | None = None
    state: str = "warm"
    warmups: int = 0
    repetitions: int = 1
    seconds: float = 0.0
    cool_down_s: float = 0.0
    cores: str | None = None
    adapter: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The job as plain data; without an adapter it is as it was before there were any."""
        return {name: value for name, value in asdict(self).items() if value is not None or name != "adapter"}


def bench_prompt(count: int, vocab_size: int) -> list[int]:
    """Seeded random token ids for a prompt; the speed of a dense model does not depend on them."""
    result: list[int] = np.random.default_rng(0).integers(0, vocab_size, count).tolist()
    return result


def vocab_size(bundle: Bundle) -> int:
    """The vocabulary size of a bundle's model: logits per position of a decoder's method, or else of its first."""
    methods = bundle.manifest.methods
    return int(next((m for m in methods if m.name in (FORWARD, FORWARD_ROWS)), methods[0]).outputs[0].shape[-1])


def job_from_json(fields: Mapping[str, Any]) -> Job:
    """Rebuild the job that ``Job.to_json`` wrote."""
    return Job(**fields)


def core_numbers(text: str) -> tuple[int, ...]:
    """The core numbers in a list with ranges, ascending.

    Raises:
        InputError: E156, the text has another form.
    """
    parts = [re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", part.strip()) for part in text.split(",")]
    ranges = [(int(part[1]), int(part[2] or part[1])) for part in parts if part]
    if len(ranges) != len(parts) or any(last < first for first, last in ranges):
        raise InputError(
            f"{text!r} is not a list of cores.", where="--cores", fix="write it like 4-7 or 0,2-3", code="E156"
        )
    return tuple(sorted({core for first, last in ranges for core in range(first, last + 1)}))
