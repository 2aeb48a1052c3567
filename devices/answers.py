"""What a device or a service answers, read as data of unknown origin: within limits, or refused by name.

Text loses what a terminal would obey; numbers have ranges, each with its reason; JSON has a depth and a size. A fault
is an ``AnswerFault``, from which each border makes its own typed error.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

MOST_JSON: Final = 16 << 20
MOST_TEXT: Final = 200
_MOST_STARTS = 200
# Controls but tab and line feed; soft hyphens, zero widths, bidirectional marks; surrogates, private use, tags.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
    "\ud800-\uf8ff\U000e0000-\U0010ffff]"
)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")
T = TypeVar("T")


class AnswerFault(ValueError):
    """An answer outside its limits; the text says which."""


def printable(text: str) -> str:
    """The text without terminal escapes, bidirectional marks and other letters that nobody sees."""
    return _UNPRINTABLE.sub("", text)


def plain(text: object, most: int = MOST_TEXT) -> str:
    """A text of a device as one printable line of at most ``most`` letters; empty for what is no text."""
    return " ".join(printable(text[: 8 * most]).split())[:most] if isinstance(text, str) else ""


def number(text: str, low: float, high: float) -> float | None:
    """A plain decimal number from ``low`` to ``high``; None for anything else."""
    found = float(text) if _DECIMAL.fullmatch(text) else None
    return found if found is not None and low <= found <= high else None


def parsed(adapter: TypeAdapter[T], text: str) -> T:
    """JSON as what the adapter describes.

    Raises:
        AnswerFault: larger than ``MOST_JSON``, nested too deeply, no JSON, or outside the described ranges.
    """
    if len(text) > MOST_JSON:
        raise AnswerFault(f"it has {len(text):,} letters, more than {MOST_JSON:,}")
    try:
        return adapter.validate_json(text.encode(errors="replace"))
    except ValidationError as cause:
        raise AnswerFault(first_fault(cause)) from cause


def first_fault(cause: ValidationError) -> str:
    """The first of what was wrong, by its place."""
    fault = cause.errors(include_input=False, include_url=False)[0]
    return plain(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}".lstrip(": "))


def json_among(text: str, opening: str) -> Any:
    """The first JSON object (``{``) or list (``[``) that is not empty among other text; None when there is none.

    Raises:
        AnswerFault: larger than ``MOST_JSON``, or nested too deeply.
    """
    if len(text) > MOST_JSON:
        raise AnswerFault(f"it has {len(text):,} letters, more than {MOST_JSON:,}")
    decoder, start = json.JSONDecoder(), text.find(opening)
    for _ in range(_MOST_STARTS):
        if start < 0:
            return None
        end = _end(decoder, text, start)
        # Read anew: this parser has a limit of depth, and knows no infinite numbers.
        value = _strict(text[start:end]) if end is not None else None
        if value:
            return value
        start = text.find(opening, start + 1)
    raise AnswerFault(f"none of its first {_MOST_STARTS} {opening!r} begins JSON")


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


# No call, load or wait of a measurement lasts a day; nothing happens in no time.
_DAY_MS = 86_400_000.0
Milliseconds = Annotated[float, Field(gt=0, le=_DAY_MS, allow_inf_nan=False)]
# Between two tokens of one call of the model a coarse clock may see none.
Gap = Annotated[float, Field(ge=0, le=_DAY_MS, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=30 * _DAY_MS / 1e3, allow_inf_nan=False)]
# A token takes at least a microsecond: a call of the smallest kernel does.
MOST_TOKENS_PER_S: Final = 1e6
Speed = Annotated[float, Field(gt=0, le=MOST_TOKENS_PER_S, allow_inf_nan=False)]
# A prompt's tokens share their calls.
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
