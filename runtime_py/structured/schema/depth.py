"""How deep a schema nests, also by way of references: the library follows both in one recursion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from edgec.runtime_py.structured.refusals import too_much

MOST_LEVELS: Final = 4_096
_LISTS: Final = ("anyOf", "allOf", "prefixItems")
_MAPS: Final = ("properties", "patternProperties")
_SINGLE: Final = ("items", "additionalProperties")


def require_depth(schema: Any) -> None:
    """Refuse a normalised schema in which a chain of parts and references is too long.

    Each definition is followed once, from where it is met first, in the order of the document, as the library does.

    Raises:
        InputError: E614.
    """
    definitions = schema.get("$defs", {}) if isinstance(schema, Mapping) else {}
    seen, pending = set[str](), [(schema, 0)]
    while pending:
        node, levels = pending.pop()
        if levels > MOST_LEVELS:
            raise too_much("schema", f"through references it has more than {MOST_LEVELS:,} levels")
        if not isinstance(node, Mapping):
            continue
        name = str(node.get("$ref", "")).removeprefix("#/$defs/")
        parts = list(_parts(node))
        if name in definitions and name not in seen:
            seen.add(name)
            parts.insert(0, definitions[name])
        pending.extend((part, levels + 1) for part in reversed(parts))


def _parts(node: Mapping[str, Any]) -> Iterator[Any]:
    for key in _LISTS:
        yield from node.get(key, ())
    for key in _MAPS:
        yield from node.get(key, {}).values()
    for key in _SINGLE:
        if key in node:
            yield node[key]
