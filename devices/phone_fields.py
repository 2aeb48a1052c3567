"""The fields of a phone's table, with what each may hold; every value of a user's file is checked against them.

The limits are wide: they refuse a slip of units (gigabytes for bytes), not an unusual machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SYSTEMS = ("android", "ios", "linux", "macos", "windows")
UNITS = ("npu", "gpu", "cpu")
KINDS = ("phone", "board", "laptop")
INSTRUCTIONS = ("dotprod", "i8mm", "bf16", "sve2", "sme", "sme2")

_MAX_TEXT, _MAX_SOURCE = 80, 500
"""Characters of a name, and of a source."""


@dataclass(frozen=True)
class Number:
    """A figure with its limits, both included.

    Attributes:
        low: the least value.
        high: the largest value.
        unit: of the value, for messages and the guide.
        whole: whether it is a whole number.
    """

    low: float
    high: float
    unit: str
    whole: bool = True

    def takes(self, value: Any) -> bool:
        """Whether a value is a number of this kind, within the limits or not."""
        return isinstance(value, int if self.whole else int | float) and not isinstance(value, bool)

    def holds(self, value: float) -> bool:
        """Whether a number is within the limits; NaN is not."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{'a whole number' if self.whole else 'a number'} of {self.unit} from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class TextForm:
    """A text: of a form, or any printable one without square brackets, which terminals would read as markup."""

    form: str
    told: str

    def takes(self, value: Any) -> bool:
        """Whether a value is a text of this form."""
        return isinstance(value, str) and value.isprintable() and bool(re.fullmatch(self.form, value))

    def __str__(self) -> str:
        return self.told


@dataclass(frozen=True)
class Words:
    """A list of words, each of a known set and once; ``least``: how many there are at least."""

    known: tuple[str, ...]
    least: int = 0

    def takes(self, value: Any) -> bool:
        """Whether a value is a list of texts, known or not."""
        return isinstance(value, list) and len(value) >= self.least and all(isinstance(word, str) for word in value)

    def __str__(self) -> str:
        return f"a list of {', '.join(self.known)}" + " with at least one" * bool(self.least)


@dataclass(frozen=True)
class CoreClocks:
    """A list of [cores, clock in hertz], fastest first."""

    cores: Number = Number(1, 256, "cores")
    clock: Number = Number(1e8, 1e10, "Hz", whole=False)

    def takes(self, value: Any) -> bool:
        """Whether a value is a list of pairs of numbers, at least one."""
        pairs = isinstance(value, list) and 0 < len(value) <= 16 and all(isinstance(pair, list) for pair in value)
        return pairs and all(
            len(pair) == 2 and self.cores.takes(pair[0]) and self.clock.takes(pair[1]) for pair in value
        )

    def holds(self, value: list[list[float]]) -> bool:
        """Whether every pair is within the limits."""
        return all(self.cores.holds(cores) and self.clock.holds(clock) for cores, clock in value)

    def __str__(self) -> str:
        return f"a list of [cores, clock]: {self.cores}, {self.clock}"


@dataclass(frozen=True)
class Truth:
    """True or false."""

    def takes(self, value: Any) -> bool:
        """Whether a value is true or false."""
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


Field = Number | TextForm | Words | CoreClocks | Truth

_NAME = TextForm(rf"[^\[\]]{{1,{_MAX_TEXT}}}", f"text of 1 to {_MAX_TEXT} characters without square brackets")
_WORD = TextForm(r"[a-z0-9][a-z0-9-]{0,39}", "a word of small letters, digits and hyphens")
_APP = Number(1e8, 2**40, "bytes")

NAMING: Mapping[str, Field] = {
    "name": _NAME,
    "os": _WORD,
    "chip": _WORD,
    "units": Words(UNITS, least=1),
    "gpu": _NAME,
    "vendor": _WORD,
    "family": _WORD,
    "kind": _WORD,
}
"""What names a phone and its parts, and needs no source."""

REQUIRED = ("name", "os", "units")

FIGURES: Mapping[str, Field] = {
    "memory_bytes": Number(2**29, 2**40, "bytes"),
    "app_limit_bytes": _APP,
    "app_limit_entitled_bytes": _APP,
    "bandwidth_bytes_per_s": Number(1e9, 5e12, "bytes per second", whole=False),
    "bandwidth_low_bytes_per_s": Number(1e9, 5e12, "bytes per second", whole=False),
    "core_clocks_hz": CoreClocks(),
    "instruction_set": Words(INSTRUCTIONS),
    "gpu_cores": Number(1, 1024, "cores"),
    "gpu_matrix_units": Truth(),
    "gpu_fp32_flops_per_s": Number(1e10, 1e15, "operations per second", whole=False),
    "npu_ops_per_s": Number(1e11, 1e16, "operations per second", whole=False),
    "driver_limited": Words(UNITS),
    "hexagon": TextForm(r"V\d\d", "V and two digits, such as V79"),
    "soc_model": Number(1, 10_000, "Qualcomm's numbers"),
    "released": TextForm(r"20\d\d-(0[1-9]|1[0-2])", "a year and a month, such as 2025-09"),
    "newest_os": TextForm(r"\d{1,3}\.\d{1,3}", "a version, such as 27.0"),
}
"""What is known of a phone or of its chip."""

SOURCE = TextForm(rf"[^\[\]]{{1,{_MAX_SOURCE}}}", f"text of 1 to {_MAX_SOURCE} characters without square brackets")

KNOWN_WORDS: Mapping[str, tuple[str, ...]] = {"os": SYSTEMS, "kind": KINDS}
"""Fields of one word that must be of a set."""

Contradiction = tuple[str, Callable[[Mapping[str, Any]], bool]]

CONTRADICTIONS: tuple[Contradiction, ...] = (
    (
        "bandwidth_low_bytes_per_s is above bandwidth_bytes_per_s, or without it",
        lambda table: table.get("bandwidth_low_bytes_per_s", 0) > table.get("bandwidth_bytes_per_s", 0),
    ),
    (
        "app_limit_bytes is not below memory_bytes",
        lambda table: table.get("app_limit_bytes", 0) >= table.get("memory_bytes", math.inf),
    ),
    (
        "app_limit_entitled_bytes is not below memory_bytes",
        lambda table: table.get("app_limit_entitled_bytes", 0) >= table.get("memory_bytes", math.inf),
    ),
    (
        "app_limit_entitled_bytes is below app_limit_bytes",
        lambda table: table.get("app_limit_entitled_bytes", math.inf) < table.get("app_limit_bytes", 0),
    ),
)
"""What no phone has, with a test for it."""
