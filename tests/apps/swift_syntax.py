"""Parsing Swift source with tree-sitter's grammar, since this machine has no compiler for Apple's frameworks."""

from __future__ import annotations

from collections.abc import Iterator

import tree_sitter_swift
from tree_sitter import Language, Node, Parser

from edgec.apps.embed.project import SWIFT
from edgec.apps.embed.written_package import AppPackage

_PARSER = Parser(Language(tree_sitter_swift.language()))


def parse(source: str) -> Node:
    """The syntax tree of a source file."""
    return _PARSER.parse(source.encode()).root_node


def in_tree(name: str) -> str:
    """The source of a Swift file as it lies in the repository."""
    (path,) = (path for path in SWIFT.rglob("*") if path.name in (f"{name}.swift",))
    return path.read_text()


def faults(source: str) -> list[str]:
    """The errors of the grammar: line and text of each."""
    return [f"line {node.start_point[0] + 1}: {(node.text or b'')[:80]!r}" for node in _faulty(parse(source))]


def _faulty(node: Node) -> Iterator[Node]:
    if node.type == "ERROR" or node.is_missing:
        yield node
    elif node.has_error:
        for child in node.children:
            yield from _faulty(child)


def nodes(node: Node, kind: str) -> Iterator[Node]:
    """All nodes of a kind below ``node``, in order."""
    for child in node.children:
        if child.type == kind:
            yield child
        yield from nodes(child, kind)


def text(node: Node) -> str:
    """A node's source."""
    return (node.text or b"").decode()


def sources(package: AppPackage) -> dict[str, str]:
    """The package's Swift files by their paths."""
    return {
        name: content.decode()
        for name, content in package.files.items()
        if name.endswith(".swift") and isinstance(content, bytes)
    }


def assert_sound(package: AppPackage) -> None:
    """Assert that every Swift file of the package parses."""
    errors = {name: faults(source) for name, source in sources(package).items()}
    assert not {name: what for name, what in errors.items() if what}
