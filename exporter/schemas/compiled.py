"""A JSON Schema as a pushdown automaton over bytes: the same texts that `edgec run --schema` allows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from edgec.exporter.schemas.characters import ANY_CHARACTER, spelled, spelled_text
from edgec.exporter.schemas.containers import Containers
from edgec.exporter.schemas.merged import SchemaMerge
from edgec.exporter.schemas.numbers import Bounds, Numerals
from edgec.exporter.schemas.pushdown import Pushdown
from edgec.exporter.schemas.refusals import not_compiled, too_large_automaton
from edgec.exporter.schemas.regular import Regular, RegularPool, TooManyStates
from edgec.exporter.schemas.text_patterns import pattern_term

MOST_STATES: Final = 1 << 16
_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_HEX: Final = "[0-9a-fA-F]"
_OCTET: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_FORMATS: Final = {
    "uuid": f"^{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}$",
    "ipv4": rf"^{_OCTET}(?:\.{_OCTET}){{3}}$",
}
_MEMBERS: Final = (
    *("properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"),
    *("items", "prefixItems", "minItems", "maxItems"),
)


def compile_schema(schema: Any) -> Pushdown:
    """Compile a schema that `normalised_schema` returned.

    Raises:
        InputError: E710, a keyword that `edgec run` enforces and this automaton does not; E711, it exceeds a limit.
    """
    compiler = _Compiler(schema.get("$defs", {}) if isinstance(schema, dict) else {})
    try:
        return compiler.whole(schema)
    except (TooManyStates, RecursionError) as error:
        why = f"its automaton has more than {MOST_STATES:,} states, or its parts are nested too deeply"
        raise too_large_automaton("schema", why) from error


class _Compiler:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions, self._merge = definitions, SchemaMerge(definitions)
        self._pool, self._machine = RegularPool(), Pushdown()
        self._numerals = Numerals(self._pool)
        self._known: dict[str, int] = {}
        self._lexemes: dict[Regular, int] = {}
        self._start = self._machine.add()
        self._end = self._machine.add(final=True)
        self._containers = Containers(self._pool, self._machine, self.value, self._lexeme)

    def whole(self, schema: Any) -> Pushdown:
        if isinstance(schema, dict):
            schema = {key: value for key, value in schema.items() if key != "$defs"}
        self._machine.states[self._start].calls.append((self.value(schema), self._end))
        machine = self._machine.trimmed()
        if machine.left_recursive():
            raise not_compiled("$ref", "schema", "a part is its own alternative")
        return machine

    def value(self, node: Any) -> int:
        """The state at which a value begins."""
        node = {} if node is True else node
        key = json.dumps(node)
        if key not in self._known:
            if isinstance(node, dict) and node.keys() == {"$ref"}:
                self._known[key] = state = self._machine.add()
                target = self._definitions[node["$ref"].removeprefix("#/$defs/")]
                self._machine.states[state].calls.append((self.value(target), self._end))
            else:
                self._known[key] = self._made(node)
        return self._known[key]

    def _made(self, node: Any) -> int:
        flat = False if node is False else self._merge.flat(node)
        if flat is True or flat is False or flat == {}:
            return self._any() if flat is not False else self._lexeme(self._pool.nothing)
        if "$ref" in flat:
            return self.value(flat)
        if "anyOf" in flat:
            rest = {key: value for key, value in flat.items() if key != "anyOf"}
            return self._one_of([self.value(self._merge.merged(rest, part)) for part in flat["anyOf"]])
        return self._plain(flat)

    def _any(self) -> int:
        """Any JSON value; lists and objects hold such again."""
        self._known["{}"] = state = self._machine.add()
        self._machine.states[state].calls.append((self._plain({}), self._end))
        return state

    def _plain(self, node: dict[str, Any]) -> int:
        named = node.get("type", _TYPES)
        kinds = [named] if isinstance(named, str) else list(named)
        listed = [node["const"]] if "const" in node else node.get("enum")
        scalars = self._pool.either(*(self._scalar(kind, node) for kind in kinds))
        if listed is not None:
            return self._listed(listed, scalars, kinds, node)
        parts = [] if scalars is self._pool.nothing else [self._lexeme(scalars)]
        parts += [self._containers.list_of(node)] if "array" in kinds else []
        parts += [self._containers.object_of(node)] if "object" in kinds else []
        return self._one_of(parts)

    def _one_of(self, starts: list[int]) -> int:
        if len(starts) == 1:
            return starts[0]
        state = self._machine.add()
        self._machine.states[state].calls.extend((start, self._end) for start in dict.fromkeys(starts))
        return state

    def _listed(self, values: list[Any], scalars: Regular, kinds: list[str], node: dict[str, Any]) -> int:
        literals = self._pool.either(*(self._literal(value) for value in values))
        parts = [self._lexeme(self._pool.both(literals, scalars))]
        containers = [value for value in values if isinstance(value, list | dict)]
        if containers and any(key in node for key in _MEMBERS):
            raise not_compiled("enum", "schema", "it lists lists or objects beside keywords about them")
        for value in containers:
            if ("array" if isinstance(value, list) else "object") in kinds:
                parts.append(self.value(_schema_of(value)))
        return self._one_of(parts)

    def _literal(self, value: Any) -> Regular:
        if isinstance(value, str):
            text = spelled_text(value)
            return self._pool.nothing if text is None else self._pool.text(b'"' + text + b'"')
        if isinstance(value, list | dict):
            return self._pool.nothing
        whole = isinstance(value, float) and value.is_integer()
        return self._pool.text(json.dumps(int(value) if whole else value).encode())

    def _scalar(self, kind: str, node: dict[str, Any]) -> Regular:
        if kind in ("null", "boolean"):
            words = (b"null",) if kind == "null" else (b"true", b"false")
            return self._pool.either(*map(self._pool.text, words))
        if kind in ("integer", "number"):
            if "multipleOf" in node:
                raise not_compiled("multipleOf", "schema", "its automaton would be too large for most numbers")
            bounds = Bounds.of(node)
            return self._numerals.integer(bounds) if kind == "integer" else self._numerals.number(bounds)
        return self._string(node) if kind == "string" else self._pool.nothing

    def _string(self, node: dict[str, Any]) -> Regular:
        pool, char = self._pool, spelled(self._pool, ANY_CHARACTER)
        given = node.get("pattern", [])
        patterns = [given] if isinstance(given, str) else list(given)
        if "format" in node:
            patterns.append(_format(node["format"]))
        terms = [pattern_term(pool, pattern, "schema") for pattern in patterns]
        low, high = node.get("minLength", 0), node.get("maxLength")
        counted = pool.repeat(char, low, high) if high is None or low <= high else pool.nothing
        return pool.then(pool.text(b'"'), pool.both(counted, *terms), pool.text(b'"'))

    def _lexeme(self, term: Regular) -> int:
        if term not in self._lexemes:
            left = MOST_STATES - len(self._machine.states)
            self._lexemes[term] = self._machine.embed(self._pool.automaton(term, left))
        return self._lexemes[term]


def _format(name: str) -> str:
    if name not in _FORMATS:
        raise not_compiled("format", "schema", f"the format {name!r} is enforced by the library of edgec run alone")
    return _FORMATS[name]


def _schema_of(value: list[Any] | dict[str, Any]) -> dict[str, Any]:
    """A schema that one list or object alone fulfils."""
    if isinstance(value, list):
        items = [{"const": item} for item in value]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items), "maxItems": len(items)}
    properties = {name: {"const": item} for name, item in value.items()}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
