"""Where a reference inside a schema leads: pointers, anchors, and the schema's own name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from edgec.runtime_py.structured.refusals import no_schema, not_enforced

_MOST = 200_000


class References:
    """The references of one document."""

    def __init__(self, root: Any) -> None:
        self._root = root
        own = root.get("$id", root.get("id")) if isinstance(root, dict) else None
        self._names = {"", own.split("#")[0]} if isinstance(own, str) else {""}
        self._anchors = dict(_anchors(root))
        self._known: dict[str, Any] = {}

    def target(self, reference: Any, where: str) -> Any:
        """The schema that a reference names.

        Raises:
            InputError: E612, it leads nowhere; E613, it leads out of the document.
        """
        if not isinstance(reference, str):
            raise no_schema(where, "$ref is not text")
        if reference not in self._known:
            self._known[reference] = self._found(reference, where)
        return self._known[reference]

    def _found(self, reference: str, where: str) -> Any:
        name, _, fragment = reference.partition("#")
        if name not in self._names:
            raise not_enforced("$ref", where, f"{reference} lies outside the schema")
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            if fragment not in self._anchors:
                raise no_schema(where, f"there is no anchor {fragment}")
            return self._anchors[fragment]
        return self._pointed(fragment, reference, where)

    def _pointed(self, pointer: str, reference: str, where: str) -> Any:
        node = self._root
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            elif pointer == "/":  # "#/" is written for the root by many, although it names the property "".
                return self._root
            else:
                raise no_schema(where, f"{reference} leads nowhere")
        return node


def _anchors(root: Any) -> Iterator[tuple[str, Any]]:
    pending, count = [root], 0
    while pending and count < _MOST:
        node, count = pending.pop(), count + 1
        if isinstance(node, dict):
            for key in ("$anchor", "$id", "id"):
                name = node.get(key)
                if isinstance(name, str) and (key == "$anchor" or name.startswith("#")):
                    yield name.removeprefix("#"), node
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)


def refers(node: Any) -> bool:
    """Whether a reference stands anywhere in a schema."""
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            if isinstance(one.get("$ref"), str):
                return True
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
    return False
