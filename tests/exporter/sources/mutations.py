"""Damaged copies of configs, index files, tokenizer files and TOML: the same ones in every run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

DEEP = 5_000
# JSON's numbers and texts that a careless reader trips over, and Python's own infinity.
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 2.5, 1e308, float("inf"), float("-inf"), float("nan"), 2**63, 10**30),
    *("", "7", "text", "../../etc/hostname", "\x00", "\ud83d", [], [1], ["text"], [None], {}, {"a": 1}),
    *({"__float__": "Infinity"}, [[[]]], ["full_attention"], {"rope_type": "none"}),
)
TOML_ODD = (
    *(
        "true",
        "0",
        "-1",
        "1",
        "2.5",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "9" * 5_000,
        "0x" + "f" * 400,
        '""',
        '"7"',
        '"text"',
    ),
    *('"\\u0000"', "[]", "[1]", '["text"]', "{}", "{a = 1}", "1979-05-27", "07:32:00", "'''a\nb'''"),
    *("[" * DEEP + "]" * DEEP, "{a = " * DEEP + "1" + "}" * DEEP),
)


@dataclass(frozen=True)
class Damage:
    """One damaged file: its bytes, and in words what was done to it."""

    what: str
    content: bytes


def damaged_json(document: Mapping[str, Any], count: int, seed: int) -> Iterator[Damage]:
    """Odd values in the places of a document, then bytes that are not such a document."""
    dice = random.Random(seed)
    places = list(_places(document))
    for _ in range(count):
        changed = deepcopy(document)
        steps = [_change(changed, dice.choice(places), dice) for _ in range(dice.choice((1, 1, 1, 2)))]
        yield Damage("; ".join(steps), json.dumps(changed).encode())
    yield from _no_document(json.dumps(document).encode(), dice)


def damaged_toml(lines: Sequence[str], count: int, seed: int) -> Iterator[Damage]:
    """Odd values after the keys of a TOML file, then bytes that are not such a file."""
    dice = random.Random(seed)
    keyed = [index for index, line in enumerate(lines) if "=" in line]
    for _ in range(count):
        changed = list(lines)
        at, value = dice.choice(keyed), dice.choice(TOML_ODD)
        name = changed[at].split("=")[0].strip()
        changed[at] = f"{name} = {value}"
        yield Damage(f"{name} = {value[:40]}", "\n".join(changed).encode())
    yield from _no_document("\n".join(lines).encode(), dice)


def _no_document(whole: bytes, dice: random.Random) -> Iterator[Damage]:
    """Cut, flipped, emptied, nested, of another encoding or another kind."""
    yield from (Damage(f"cut at {at}", whole[:at]) for at in (0, 1, len(whole) // 2, len(whole) - 1))
    for _ in range(8):
        at, bit = dice.randrange(len(whole)), 1 << dice.randrange(8)
        yield Damage(f"bit of byte {at}", whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
    for kind in (b"[]", b"null", b"7", b'"text"', b"NaN", b"9" * 5_000, b"\xff\xfe\x00", b"\xef\xbb\xbf" + whole):
        yield Damage(f"{kind[:12]!r} instead", kind)
    for nested in (
        b"[" * DEEP + b"]" * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b"[" * DEEP,
        b"a." * DEEP + b"a = 1",
    ):
        yield Damage(f"{nested[:6]!r} nested", nested)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key of a document, objects in lists and objects included."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _change(document: Any, path: tuple[Any, ...], dice: random.Random) -> str:
    """Replace or remove one value; says what was done."""
    owner = document
    for key in path[:-1]:
        owner = owner[key] if _has(owner, key) else {}
    name = ".".join(map(str, path))
    if dice.random() < 0.1 and _has(owner, path[-1]):
        del owner[path[-1]]
        return f"{name} removed"
    value = deepcopy(dice.choice(ODD))
    if _has(owner, path[-1]):
        owner[path[-1]] = value
    return f"{name} = {value!r}"[:80]


def _has(owner: Any, key: Any) -> bool:
    return (
        key in owner if isinstance(owner, Mapping) else key in range(len(owner)) if isinstance(owner, list) else False
    )
