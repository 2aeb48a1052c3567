"""Answers of devices and services, treated as untrusted input: read within limits, or refused with the reason.

Terminal control characters are removed from text; numbers have ranges, each with its reason; JSON has a maximum depth
and size. A violation is an ``AnswerFault``, which each caller turns into its own typed error. What the services' client
libraries raise becomes one in ``asked``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from edgec.errors import EdgecError, InputError, ToolError
from edgec.installation import install_command

MOST_JSON: Final = 16 << 20
MOST_TEXT: Final = 200
_MOST_STARTS = 200
# Controls except tab and line feed; soft hyphens, zero widths, bidirectional marks; surrogates, private use, tags.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
    "\ud800-\uf8ff\U000e0000-\U0010ffff]"
)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")
T = TypeVar("T")


class AnswerFault(ValueError):
    """An answer outside its limits; the text says which."""


def printable(text: str) -> str:
    """The text without terminal escapes, bidirectional marks and other invisible characters."""
    return _UNPRINTABLE.sub("", text)


def plain(text: object, most: int = MOST_TEXT) -> str:
    """A device's text as one printable line of at most ``most`` characters; empty for anything but a string."""
    return " ".join(printable(text[: 8 * most]).split())[:most] if isinstance(text, str) else ""


def number(text: str, low: float, high: float) -> float | None:
    """A plain decimal number from ``low`` to ``high``; None for anything else."""
    value = float(text) if _DECIMAL.fullmatch(text) else None
    return value if value is not None and low <= value <= high else None


def parsed(adapter: TypeAdapter[T], text: str) -> T:
    """Parse JSON into the type that the adapter describes.

    Raises:
        AnswerFault: larger than ``MOST_JSON``, nested too deeply, not JSON, or outside the described ranges.
    """
    if len(text) > MOST_JSON:
        raise AnswerFault(f"it has {len(text):,} characters, more than {MOST_JSON:,}")
    try:
        return adapter.validate_json(text.encode(errors="replace"))
    except ValidationError as cause:
        raise AnswerFault(first_fault(cause)) from cause


def first_fault(cause: ValidationError) -> str:
    """The first validation fault, with its place in the data."""
    fault = cause.errors(include_input=False, include_url=False)[0]
    return plain(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}".lstrip(": "))


def json_among(text: str, opening: str) -> Any:
    """The first non-empty JSON object (``{``) or list (``[``) in a longer text; None when there is none.

    Raises:
        AnswerFault: larger than ``MOST_JSON``, or nested too deeply.
    """
    if len(text) > MOST_JSON:
        raise AnswerFault(f"it has {len(text):,} characters, more than {MOST_JSON:,}")
    decoder, start = json.JSONDecoder(), text.find(opening)
    for _ in range(_MOST_STARTS):
        if start < 0:
            return None
        end = _end(decoder, text, start)
        # Parsed again: this parser limits the depth and refuses infinite numbers.
        value = _strict(text[start:end]) if end is not None else None
        if value:
            return value
        start = text.find(opening, start + 1)
    raise AnswerFault(f"none of its first {_MOST_STARTS} {opening!r} begin JSON")


def _end(decoder: json.JSONDecoder, text: str, start: int) -> int | None:
    try:
        return decoder.raw_decode(text, start)[1]
    except RecursionError as cause:
        raise AnswerFault("its JSON is nested too deeply") from cause
    except ValueError:
        return None


def _strict(text: str) -> Any:
    try:
        return from_json(text.encode(errors="replace"), allow_inf_nan=False)
    except ValueError as cause:
        raise AnswerFault(plain(str(cause))) from cause


# No call, load or wait of a measurement lasts a day, and none takes zero time.
_DAY_MS = 86_400_000.0
Milliseconds = Annotated[float, Field(gt=0, le=_DAY_MS, allow_inf_nan=False)]
# A coarse clock may see no time pass between two tokens of one call of the model.
Gap = Annotated[float, Field(ge=0, le=_DAY_MS, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=30 * _DAY_MS / 1e3, allow_inf_nan=False)]
# A token takes at least a microsecond: a call of the smallest kernel does.
MOST_TOKENS_PER_S: Final = 1e6
Speed = Annotated[float, Field(gt=0, le=MOST_TOKENS_PER_S, allow_inf_nan=False)]
# Higher than for decoding, since many tokens of a prompt share one call.
MOST_PROMPT_TOKENS_PER_S: Final = 1e8
PromptSpeed = Annotated[float, Field(gt=0, le=MOST_PROMPT_TOKENS_PER_S, allow_inf_nan=False)]
# 16 TiB: a hundred times the largest memory of a machine that runs edgec.
MOST_BYTES: Final = 1 << 44
Bytes = Annotated[int, Field(ge=0, le=MOST_BYTES)]
AnswerShare = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
AnswerCount = Annotated[int, Field(ge=0, le=1 << 31)]
Threads = Annotated[int, Field(ge=1, le=4096)]
# Phones shut down long before 150 °C and do not start below -50 °C.
COLDEST_C, HOTTEST_C = -50.0, 150.0
Celsius = Annotated[float, Field(ge=COLDEST_C, le=HOTTEST_C, allow_inf_nan=False)]
FASTEST_MHZ = 20_000.0
Megahertz = Annotated[float, Field(gt=0, le=FASTEST_MHZ, allow_inf_nan=False)]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
MOST_TASKS = 100_000.0
Load = Annotated[float, Field(ge=0, le=MOST_TASKS, allow_inf_nan=False)]
# Android's scale, from none to shutdown.
HOTTEST_STATUS = 6
ThermalStatus = Annotated[int, Field(ge=0, le=HOTTEST_STATUS)]
Energy = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PlainText = Annotated[str, AfterValidator(plain)]


def asked(ask: Callable[[], T], failed: Callable[[str], InputError]) -> T:
    """Call a client library and turn whatever it raises into a typed error.

    Args:
        ask: the call.
        failed: makes the typed error from a reason.
    """
    try:
        return ask()
    except EdgecError:
        raise
    except Exception as cause:
        raise failed(f"{type(cause).__name__}: {cause}") from cause


def not_installed(library: str, service: str, extra: str, cause: ImportError) -> ToolError:
    """E567: a client library is not installed."""
    fix = install_command(extra)
    return ToolError(f"{library} is not installed.", where=service, why=str(cause), fix=fix, code="E567")
