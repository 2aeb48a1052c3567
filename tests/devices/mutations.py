"""Mutations that make good answers bad; the same seed gives the same answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

NUMBERS = (
    *(
        "-1",
        "0",
        "-0.0",
        "1e999",
        "-1e999",
        "NaN",
        "Infinity",
        "1.2.3",
        "",
        "0x10",
        "٣",
        "²",
        "1e308",
        "1e-320",
        "5e-324",
        "1_0",
    ),
    *("9" * 30, "9" * 5000, "18446744073709551616", "0.0000001", "--5", "+5", "5.", ".5", "true", "null", "[]", '"5"'),
)
TEXTS = (
    *(
        "[/nope]",
        "[bold",
        "\x1b[2J\x1b]0;owned\x07",
        "\x9b31m",
        "\u202egnp.exe",
        "\x00",
        "\r\n",
        "\u2028",
        "\ufeff",
        "%s",
    ),
    *("=edgec=thermal\n", "<script>alert(1)</script>", "../../etc", "`id`", "'; id; '", "x" * 100_000, "\n" * 10_000),
    *("{", "[" * 2000, '{"a":' * 2000, '{"event":"ended","status":0}\n', '{"event":"loaded"}\n', "\ud800", "Ω😀"),
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        10**30,
        -1e308,
        1e308,
        5e-324,
        float("nan"),
        float("inf"),
        "",
        "5",
        "\x1b[31m[/nope]",
    ),
    *([], {}, [[[]]], {"": None}, ["x"] * 1000, "y" * 100_000),
)


def mutated_text(text: str, random: Random) -> str:
    """The text with one to four changes."""
    for _ in range(random.randint(1, 4)):
        text = random.choice(CHANGES)(text, random)
    return text


def _place(text: str, random: Random) -> tuple[int, int]:
    start = random.randint(0, len(text))
    return start, min(len(text), start + random.choice((1, 3, 20, 400)))


def _number(text: str, random: Random) -> str:
    """The text with one of its numbers replaced."""
    starts = [i for i, letter in enumerate(text) if letter.isdigit() and not text[i - 1 : i].isdigit()]
    if not starts:
        return text
    start = random.choice(starts)
    end = next((i for i in range(start, len(text)) if not (text[i].isdigit() or text[i] == ".")), len(text))
    return text[:start] + random.choice(NUMBERS) + text[end:]


def _cut(text: str, random: Random) -> str:
    start, end = _place(text, random)
    return text[:start] + text[end:]


def _inserted(text: str, random: Random) -> str:
    start, _ = _place(text, random)
    return text[:start] + random.choice(TEXTS) + text[start:]


def _repeated(text: str, random: Random) -> str:
    start, end = _place(text, random)
    return text[:end] + text[start:end] * random.choice((1, 2, 50)) + text[end:]


def _ended(text: str, random: Random) -> str:
    return text[: random.randint(0, len(text))]


CHANGES: tuple[Callable[[str, Random], str], ...] = (_number, _number, _number, _cut, _inserted, _repeated, _ended)


def mutated_value(value: Any, random: Random) -> Any:
    """JSON with something inside replaced, missing, doubled or nested."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(sorted(value))
        kept = {name: inner for name, inner in value.items() if name != key or random.random() < 0.9}
        return kept | {key: mutated_value(value[key], random)} if key in kept else kept
    if isinstance(value, list) and value and random.random() < 0.85:
        index = random.randrange(len(value))
        return [*value[:index], mutated_value(value[index], random), *value[index + random.randint(0, 2) :]]
    return _deep() if random.random() < 0.05 else random.choice(VALUES)


def _deep() -> Any:
    value: Any = 1
    for _ in range(150):
        value = {"a": [value]}
    return value


def mutated_json(value: Any, random: Random) -> str:
    """The JSON of a value, changed before or after it is written, or both."""
    changed = mutated_value(value, random) if random.random() < 0.7 else value
    text = json.dumps(changed)
    return mutated_text(text, random) if random.random() < 0.4 else text
