"""The values of keywords: of the right kind, and within the limits of what the engine holds exactly."""

from __future__ import annotations

import math
from typing import Any, Final, TypeVar

from edgec.runtime_py.structured.refusals import no_schema, too_much
from edgec.runtime_py.structured.schema.keywords import TYPES

# Whole numbers up to here are exact in the engine's doubles.
MOST_NUMBER: Final = 2**53
MOST_COUNT: Final = {"minLength": 100_000, "maxLength": 1 << 20}
MOST_OTHERS: Final = 2_000
# Of excluded bounds near 0, where the next float64 has hundreds of decimals.
_LEAST_STEP: Final = 1e-15
_WORDS: Final[dict[type, str]] = {dict: "an object", list: "a list", str: "text"}
PartT = TypeVar("PartT")


def part_of(value: Any, kind: type[PartT], where: str) -> PartT:
    """A value that is to be of a kind.

    Raises:
        InputError: E612, it is not.
    """
    if not isinstance(value, kind):
        raise no_schema(where, f"its value is not {_WORDS[kind]}")
    return value


def check_types(value: Any, where: str) -> Any:
    """The value of ``type``.

    Raises:
        InputError: E612.
    """
    names = [value] if isinstance(value, str) else part_of(value, list, where)
    unknown = next((name for name in names if name not in TYPES), None)
    if unknown is not None or not names:
        raise no_schema(where, f"{unknown!r:.40} is not a type" if names else "it lists no type")
    return value


def check_names(value: Any, where: str) -> list[str]:
    """The value of ``required``.

    Raises:
        InputError: E612.
    """
    return [part_of(name, str, where) for name in part_of(value, list, where)]


def check_count(key: str, value: Any, where: str) -> int:
    """The value of a keyword that counts.

    Raises:
        InputError: E612, E614.
    """
    if not _is_number(value) or value < 0 or value != int(value):
        raise no_schema(where, "its value is not a whole number, 0 or more")
    most = MOST_COUNT.get(key, MOST_OTHERS)
    if value > most:
        raise too_much(where, f"{key} may be up to {most:,}")
    return int(value)


def check_bound(key: str, value: Any, node: dict[str, Any], out: dict[str, Any], where: str, old: bool) -> None:
    """Put the bound of a number into ``out``; ``old``: exclusive bounds are truth values, as in draft 4.

    Raises:
        InputError: E612, E614.
    """
    if old and key.startswith("exclusive") and isinstance(value, bool):
        plain = key.removeprefix("exclusive").lower()
        if value and _is_number(node.get(plain)):
            out[key] = node[plain]
        return
    if not _is_number(value) or (key == "multipleOf" and value <= 0):
        raise no_schema(where, "its value is not a number" + (" above 0" if key == "multipleOf" else ""))
    _check_size(value, where)
    out[key] = value


def with_included_bounds(node: dict[str, Any]) -> dict[str, Any]:
    """A node whose excluded whole numbers are included neighbours, where its numbers lie within less than 1.

    llguidance 1.9 lets 3 through for ``exclusiveMinimum: 3`` beside ``maximum: 3.25``, and -3 likewise below 0. The
    neighbour is the next float64, at least 1e-15 away: what lies between would be read as 3 by most readers of JSON.
    """
    lows = [node[key] for key in ("minimum", "exclusiveMinimum") if key in node]
    highs = [node[key] for key in ("maximum", "exclusiveMaximum") if key in node]
    if not lows or not highs or node.get("type") == "integer" or min(highs) - max(lows) >= 1:
        return node
    out = dict(node)
    for bound, excluded, inwards, nearer in (
        ("minimum", "exclusiveMinimum", 1, max),
        ("maximum", "exclusiveMaximum", -1, min),
    ):
        value = node.get(excluded)
        if value is not None and value == int(value):
            neighbour = value + inwards * max(math.ulp(value), _LEAST_STEP)
            out[bound] = nearer(out.get(bound, neighbour), neighbour)
            del out[excluded]
    return out


def check_const(values: list[Any], where: str) -> None:
    """Refuse numbers that the engine does not hold exactly, anywhere in values that are listed.

    Raises:
        InputError: E614.
    """
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif _is_number(value):
            _check_size(value, where)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_size(value: float, where: str) -> None:
    if abs(value) > MOST_NUMBER:
        raise too_much(where, "numbers lie within 2**53")
