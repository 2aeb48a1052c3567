"""Schemas and grammars that ended a process, or kept it busy for minutes, each small enough for one request."""

from __future__ import annotations

from typing import Any


def chain(length: int) -> dict[str, Any]:
    """References from one to the next."""
    links = {f"d{place}": {"$ref": f"#/$defs/d{place + 1}"} for place in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {"type": "integer"}}}


def chained_objects(length: int, required: bool = False) -> dict[str, Any]:
    """Objects that hold the next one."""
    must = {"required": ["a"]} if required else {}
    links = {
        f"d{place}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{place + 1}"}}, **must}
        for place in range(length)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {"type": "integer"}}}


def nested(levels: int) -> dict[str, Any]:
    """Lists of allOf within each other."""
    return {"allOf": [nested(levels - 1)] * 3} if levels else {"type": "string"}


def rules(count: int) -> str:
    """Rules of Lark's notation, each of which is the next."""
    return "start: r0\n" + "".join(f"r{place}: r{place + 1}\n" for place in range(count)) + f'r{count}: "a"\n'


def gbnf(count: int) -> str:
    """The same in GBNF."""
    return "root ::= r0\n" + "".join(f"r{place} ::= r{place + 1}\n" for place in range(count)) + f'r{count} ::= "a"\n'


def names(count: int) -> list[str]:
    return [f"k{place}" for place in range(count)]


BEYOND: dict[str, dict[str, Any]] = {
    "5,000 references": {"schema": chain(5_000)},
    "objects in objects": {"schema": chained_objects(4_000)},
    "objects that must be": {"schema": chained_objects(3_000, required=True)},
    "30,000 names required": {"schema": {"type": "object", "required": names(30_000)}},
    "10,000 properties": {
        "schema": {"type": "object", "properties": {name: {"type": "null"} for name in names(10_000)}}
    },
    "10,000 patterns": {"schema": {"type": "object", "patternProperties": dict.fromkeys(names(10_000), True)}},
    "15,000 rules": {"grammar": rules(15_000)},
    "15,000 rules in GBNF": {"grammar": gbnf(15_000)},
    "oneOf of two nests": {"schema": {"oneOf": [nested(6), nested(6)]}},
    "unknown words": {"schema": dict.fromkeys(names(60_000), 0)},
}
WITHIN: dict[str, dict[str, Any]] = {
    "4,000 references": {"schema": chain(4_000)},
    "2,000 objects in objects": {"schema": chained_objects(2_000)},
    "2,000 objects that must be": {"schema": chained_objects(2_000, required=True)},
    "oneOf of 15,000 constants": {"schema": {"oneOf": [{"const": place} for place in range(15_000)]}},
    "150 enums of 400": {
        "schema": {"properties": {name: {"enum": [f"{name}-{place}" for place in range(400)]} for name in names(150)}}
    },
    "4,000 rules": {"grammar": rules(4_000)},
}
