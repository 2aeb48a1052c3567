"""A JSON Schema rewritten so that the engine enforces all of it; what it could not enforce is refused by name.

The result has 2020-12's keywords alone: no annotations, references as ``#/$defs/NUMBER``, lists of items as
prefixItems, oneOf as anyOf where its parts exclude each other, formats as patterns where the engine's are too wide.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from edgec.runtime_py.structured.refusals import empty, no_schema, not_enforced, too_much
from edgec.runtime_py.structured.schema.depth import require_depth
from edgec.runtime_py.structured.schema.disjoint import Disjointness, TooManySteps
from edgec.runtime_py.structured.schema.inhabited import inhabited
from edgec.runtime_py.structured.schema.keywords import (
    ANNOTATIONS,
    ENFORCED,
    ENGINE_FORMATS,
    HOSTNAME_CHARACTERS,
    NUMBER_FORMATS,
    PATTERNS,
    REFUSED,
)
from edgec.runtime_py.structured.schema.references import References, refers
from edgec.runtime_py.structured.schema.values import (
    check_bound,
    check_const,
    check_count,
    check_names,
    check_types,
    part_of,
    with_included_bounds,
)

MOST_NODES: Final = 20_000
DEEPEST: Final = 64
MOST_NAMES: Final = 4_096
MOST_FOREIGN: Final = 1_000
_SIMILAR: Final = 0.86
_LONGEST_SIMILAR: Final = 32
_DOUBLED: Final = "&-~"
_OLD: Final = ("draft-03", "draft-04", "draft-06", "draft-07")
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS: Final = ("minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength")
_LISTS: Final = ("anyOf", "oneOf", "allOf")

PatternFault = Callable[[str], str]
Node = dict[str, Any]
NamesT = TypeVar("NamesT", dict[str, Any], list[str])


def normalise(schema: Any, pattern_fault: PatternFault) -> Any:
    """Rewrite a schema.

    Args:
        schema: an object, true or false.
        pattern_fault: says what the engine finds wrong with a regular expression, or nothing.

    Raises:
        InputError: E612, it is not a schema; E613, a keyword is not enforced; E614, it exceeds a limit; E615, no value
            fulfils it.
    """
    made = _Rewriting(schema, pattern_fault).whole(schema)
    require_depth(made)
    if not inhabited(made):
        raise empty("schema", "every value that it describes is infinite, or none is left")
    return made


class _Rewriting:
    """One rewriting; references are rewritten once each, when first met."""

    def __init__(self, root: Any, pattern_fault: PatternFault) -> None:
        draft = root.get("$schema") if isinstance(root, dict) else None
        self._draft = draft if isinstance(draft, str) else ""
        self._references = References(root)
        self._disjoint = Disjointness(lambda reference: self._references.target(reference, "$ref"))
        self._pattern_fault = pattern_fault
        self._names: dict[int, str] = {}
        self._waiting: list[tuple[str, Any, str]] = []
        self._nodes = 0
        self._foreign: set[str] = set()

    def whole(self, root: Any) -> Any:
        """The rewritten root, with all that it refers to in ``$defs``."""
        made = self._node(root, "#", 0)
        definitions: dict[str, Any] = {}
        while self._waiting:
            name, target, where = self._waiting.pop()
            definitions[name] = self._node(target, where, 0)
        return {**made, "$defs": definitions} if definitions and isinstance(made, dict) else made

    def _node(self, node: Any, where: str, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > MOST_NODES or depth > DEEPEST:
            what = f"{MOST_NODES:,} parts" if self._nodes > MOST_NODES else f"{DEEPEST} levels"
            raise too_much(where, f"a schema may have {what}")
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            raise no_schema(where, "a schema is an object, true or false")
        if "$ref" in node and any(old in self._draft for old in _OLD):
            node = {"$ref": node["$ref"]}  # Keywords beside a reference say nothing in drafts before 2019-09.
        out: Node = {}
        for key, value in node.items():
            self._keyword(key, value, node, out, where, depth)
        return with_included_bounds(out)

    def _keyword(self, key: str, value: Any, node: Node, out: Node, where: str, depth: int) -> None:
        place = f"{where}/{key}"
        if key in ("$id", "id") and depth and isinstance(value, str) and not value.startswith("#") and refers(node):
            raise not_enforced(key, place, "a schema inside another has a name of its own, and references below it")
        if key in ANNOTATIONS:
            return
        if key in REFUSED:
            if not REFUSED[key](value):
                raise not_enforced(key, place, "no engine that edgec has can hold a text to it")
            return
        if key not in ENFORCED:
            self._let_through(key, place)
            return
        self._enforced(key, value, node, out, place, depth)

    def _let_through(self, key: str, where: str) -> None:
        """Take a word that no draft knows as an annotation, unless it looks like a keyword mistyped."""
        if key in self._foreign or not key[:1].isalpha() or key.startswith("x-") or len(key) > _LONGEST_SIMILAR:
            return
        self._foreign.add(key)
        if len(self._foreign) > MOST_FOREIGN:
            raise too_much(where, f"a schema may have {MOST_FOREIGN:,} words that are not keywords")
        if near := get_close_matches(key, (*ENFORCED, *REFUSED), 1, _SIMILAR):
            raise not_enforced(key, where, f"there is no such keyword; did you mean {near[0]}?")

    def _enforced(self, key: str, value: Any, node: Node, out: Node, where: str, depth: int) -> None:
        if key in _LISTS:
            self._alternatives(key, value, out, where, depth)
        elif key in _BOUNDS:
            check_bound(key, value, node, out, where, "draft-04" in self._draft or "draft-03" in self._draft)
        elif key in _COUNTS:
            out[key] = check_count(key, value, where)
            if key == "minProperties":
                self._min_properties(value, node, out, where)
        elif key in ("properties", "patternProperties"):
            pairs = _counted(part_of(value, dict, where), where).items()
            out[key] = {
                self._name(key, name, where): self._node(part, f"{where}/{name}", depth + 1) for name, part in pairs
            }
        elif key == "additionalProperties":
            out[key] = self._node(value, where, depth + 1)
        elif key in ("items", "prefixItems", "additionalItems"):
            self._items(key, value, node, out, where, depth)
        else:
            self._plain(key, value, node, out, where)

    def _plain(self, key: str, value: Any, node: Node, out: Node, where: str) -> None:
        if key == "$ref":
            out[key] = f"#/$defs/{self._defined(value, where)}"
        elif key == "type":
            out[key] = check_types(value, where)
        elif key == "required":
            out[key] = _counted(check_names(value, where), where)
        elif key in ("enum", "const"):
            check_const([value] if key == "const" else part_of(value, list, where), where)
            if value == []:
                raise empty(where, "enum lists no value")
            out[key] = value
        elif key == "pattern":
            out[key] = self._pattern(value, where)
        elif key == "format":
            self._format(value, node, out, where)

    def _defined(self, reference: Any, where: str) -> str:
        target = self._references.target(reference, where)
        if id(target) not in self._names:
            self._names[id(target)] = f"d{len(self._names)}"
            self._waiting.append((self._names[id(target)], target, str(reference)))
        return self._names[id(target)]

    def _alternatives(self, key: str, value: Any, out: Node, where: str, depth: int) -> None:
        parts = part_of(value, list, where)
        if not parts:
            raise no_schema(where, f"{key} lists nothing")
        made = [self._node(part, f"{where}/{index}", depth + 1) for index, part in enumerate(parts)]
        if key == "allOf":
            out.setdefault("allOf", []).extend(made)
        elif key == "anyOf" or self._exclusive(parts, where):
            # Two lists of alternatives in one schema are both to be met.
            free = "anyOf" not in out
            out.update({"anyOf": made}) if free else out.setdefault("allOf", []).append({"anyOf": made})
        else:
            raise not_enforced("oneOf", where, "its parts are not known to exclude each other; anyOf would do")

    def _exclusive(self, parts: list[Any], where: str) -> bool:
        try:
            return self._disjoint.all_hold(parts)
        except TooManySteps as error:
            raise too_much(where, "whether its parts exclude each other takes too many comparisons") from error

    def _min_properties(self, count: Any, node: Node, out: Node, where: str) -> None:
        required = node.get("required")
        if isinstance(required, list) and len(set(map(str, required))) >= count:
            del out["minProperties"]
        elif count > 1:
            raise not_enforced("minProperties", where, "names of free properties may repeat; list them in required")

    def _name(self, key: str, name: str, where: str) -> str:
        return self._pattern(name, where) if key == "patternProperties" else name

    def _items(self, key: str, value: Any, node: Node, out: Node, where: str, depth: int) -> None:
        listed = isinstance(node.get("items"), list)
        if listed and not (any(old in self._draft for old in _OLD) or "2019-09" in self._draft):
            raise no_schema(where, "a list of items needs a $schema before 2020-12; write prefixItems")
        if key == "items" and listed:
            made = [self._node(part, f"{where}/{index}", depth + 1) for index, part in enumerate(value)]
            out["prefixItems"] = made
        elif key == "prefixItems":
            parts = part_of(value, list, where)
            out[key] = [self._node(part, f"{where}/{index}", depth + 1) for index, part in enumerate(parts)]
        elif key == "items" or listed:
            out["items"] = self._node(value, where, depth + 1)

    def _pattern(self, value: Any, where: str) -> str:
        pattern = portable(part_of(value, str, where))
        if fault := self._pattern_fault(pattern):
            raise not_enforced("pattern", where, fault)
        return pattern

    def _format(self, value: Any, node: Node, out: Node, where: str) -> None:
        name = part_of(value, str, where)
        types = node.get("type")
        kinds = {types} if isinstance(types, str) else set(types) if isinstance(types, list) else {"string"}
        if name in NUMBER_FORMATS and "string" not in kinds:
            low_high = NUMBER_FORMATS[name]
            if low_high:
                out.setdefault("allOf", []).append({"minimum": low_high[0], "maximum": low_high[1]})
        elif name in PATTERNS:
            out.setdefault("allOf", []).append({"pattern": PATTERNS[name]})
        elif name in ENGINE_FORMATS:
            out["format"] = ENGINE_FORMATS[name]
            if out["format"] == "hostname":
                out.setdefault("allOf", []).append({"maxLength": HOSTNAME_CHARACTERS})
        else:
            raise not_enforced("format", where, f"the format {name!r} is not known")


def _counted(names: NamesT, where: str) -> NamesT:
    if len(names) > MOST_NAMES:
        raise too_much(where, f"it has {len(names):,} names, and may have {MOST_NAMES:,}")
    return names


def portable(pattern: str) -> str:
    """The pattern with what only the engine reads as a nested class or an operator escaped; ECMA-262 knows neither."""
    out, place, inside = [], 0, False
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            out.append(pattern[place : place + 2])
            place += 2
            continue
        if not inside and char == "[":
            inside = True
            lead = "[^" if pattern.startswith("[^", place) else "["
            out.append(lead)
            place += len(lead)
            continue
        if inside and char == "]":
            inside = False
        doubled = char in _DOUBLED and pattern.startswith(char * 2, place)
        out.append(f"\\{char}" if inside and (char == "[" or doubled) else char)
        place += 1
    return "".join(out)
