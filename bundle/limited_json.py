"""Read JSON and TOML from outside under limits of size, depth, digits and finite numbers; what exceeds them is refused.

The parser is pydantic's, which stops at about 200 levels. A reader that knows the fields gives a pydantic model.
"""

from __future__ import annotations

import math
import re
import stat
import tomllib
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from edgec.errors import InputError

_MAX_DIGITS = 40
_MAX_WHY = 200
# What pydantic puts into a place for each kind of a value that may have several.
_KIND = re.compile(r"(str|int|float|bool|none|dict|list|constrained-\w+|[a-z-]+\[.*\])$", re.DOTALL)
_ARTICLES = {dict: "an object", list: "a list", str: "text", bool: "a truth value", type(None): "null"}
ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True)
class JsonKind:
    """How a kind of file is read, and how a bad one is refused.

    Attributes:
        what: one sentence for the refusal.
        fix: what the user can do about it.
        code: the error's code.
        max_bytes: a larger file is refused before it is read.
        infinite: NaN and Infinity are allowed, as Python writes them.
    """

    what: str
    fix: str
    code: str
    max_bytes: int = 16 << 20
    infinite: bool = False

    def refusal(self, path: Path, why: str) -> InputError:
        """The error that refuses a file of this kind."""
        return InputError(self.what, str(path), why[:_MAX_WHY], self.fix, self.code)


def read_json(path: Path, kind: JsonKind) -> Any:
    """Read a file's JSON value, of any kind.

    Raises:
        InputError: with the kind's code, the file is not plain, not readable, too large, or not JSON within the limits.
    """
    try:
        return parse_json(limited_bytes(path, kind.max_bytes), infinite=kind.infinite)
    except (OSError, ValueError) as error:
        raise kind.refusal(path, str(error)) from error


def read_object(path: Path, kind: JsonKind) -> dict[str, Any]:
    """A file's JSON object. Raises as `read_json`, and where the value is not an object."""
    value = read_json(path, kind)
    if not isinstance(value, dict):
        raise kind.refusal(path, f"it holds {_ARTICLES.get(type(value), 'a number')} instead of an object")
    return value


def read_model(path: Path, model: type[ModelT], kind: JsonKind) -> ModelT:
    """A file's JSON as a pydantic model. Raises as `read_json`, and where the model refuses it."""
    try:
        return model.model_validate(read_json(path, kind))
    except ValidationError as error:
        raise kind.refusal(path, first_fault(error)) from error


def limited_bytes(path: Path, max_bytes: int, follow: bool = True) -> bytes:
    """The content of a plain file; ``follow``: a link to one counts as one.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a plain file, or larger than ``max_bytes``.
    """
    status = path.stat(follow_symlinks=follow)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a plain file")
    with open(path, "rb") as file:
        # As many bytes as there are: a buffer for the limit would be made, and moved, for every file.
        raw = file.read(min(status.st_size, max_bytes) + 1)
        raw += file.read(max_bytes + 1 - len(raw)) if len(raw) > status.st_size else b""
    if len(raw) > max_bytes:
        raise ValueError(f"it is larger than {max_bytes:,} bytes")
    return raw


def parse_json(raw: bytes, *, infinite: bool = False) -> Any:
    """Parse a JSON value from bytes.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or holds a number beyond the limits.
    """
    value = from_json(raw.removeprefix(BOM_UTF8), allow_inf_nan=infinite)
    require_limits(value, infinite=infinite)
    return value


def require_limits(value: Any, *, infinite: bool = False) -> None:
    """Refuse numbers beyond the limits anywhere in a value of objects, lists and numbers.

    Raises:
        ValueError: a number has too many digits, or is not finite.
    """
    for number in _numbers(value):
        if isinstance(number, int) and abs(number) >= 10**_MAX_DIGITS:
            raise ValueError(f"a number has more than {_MAX_DIGITS} digits")
        if not infinite and not math.isfinite(number):
            raise ValueError("a number is too large")


def _numbers(value: Any) -> Iterator[int | float]:
    """Every number of a JSON value, found without recursion."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
        elif isinstance(one, int | float):
            yield one


def first_fault(error: ValidationError) -> str:
    """The first fault that a pydantic model reports, with its place.

    A value of several kinds has a fault for each: that of the kind which fitted furthest is told, else all of them.
    """
    faults = [(_place(fault["loc"]), fault["msg"]) for fault in error.errors(include_input=False, include_url=False)]
    first = faults[0][0]
    beside = [fault for fault in faults if fault[0][: len(first)] == first]
    place = max((each for each, _ in beside), key=len)
    told = dict.fromkeys(message for each, message in beside if each == place)
    name = ".".join(str(part) for part in place)
    why = ", or ".join(told) if place == first else next(iter(told))
    return (f"{name}: {why}" if name else why)[:_MAX_WHY]


def _place(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """A fault's place in the file, without the kinds that pydantic tried there."""
    return tuple(part for part in location if not (isinstance(part, str) and _KIND.match(part)))


def read_toml(path: Path, kind: JsonKind) -> dict[str, Any]:
    """Read a TOML file's table.

    Raises:
        InputError: with the kind's code, the file is not plain, not readable, too large, or not TOML within the limits.
    """
    try:
        table = tomllib.loads(limited_bytes(path, kind.max_bytes).decode())
        require_limits(table, infinite=kind.infinite)
    except (OSError, ValueError) as error:
        raise kind.refusal(path, str(error)) from error
    except RecursionError as error:
        raise kind.refusal(path, "it is nested too deeply") from error
    return table


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; true and false are not numbers here."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
