"""A chat template as a program that an app runs: Jinja's own parser reads it here, and the app evaluates the tree.

A template that numbers its messages, or looks at what is in them, is not made of pieces; an app has to render it whole.
The tree is JSON: each node a list of its name and its parts. Names, filters, tests and methods are those that templates
of published models use; a template that needs another one has no program, and the app says that it renders no
conversations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from edgec.apps.embed.prompt_dates import has_known_directives

Tree = Any
_MOST_CHARACTERS: Final = 1 << 20
_DEEPEST: Final = 190
_FILTERS: Final = frozenset((
    *("capitalize", "count", "d", "default", "first", "int", "items", "join", "last", "length", "list", "lower"),
    *("map", "reject", "rejectattr", "replace", "reverse", "safe", "select", "selectattr", "string", "title"),
    *("tojson", "trim", "unique", "upper"),
))  # fmt: skip
_TESTS: Final = frozenset((
    *("==", "eq", "equalto", "boolean", "defined", "divisibleby", "even", "false", "float", "in", "integer"),
    *("iterable", "lower", "mapping", "ne", "none", "number", "odd", "sameas", "sequence", "string", "true"),
    *("undefined", "upper"),
))  # fmt: skip
_METHODS: Final = frozenset((
    *("capitalize", "endswith", "find", "get", "items", "join", "keys", "lower", "lstrip", "replace", "rstrip"),
    *("split", "startswith", "strip", "title", "upper", "values"),
))  # fmt: skip
_LOOP: Final = frozenset({"cycle"})
_NO_FUNCTIONS: Final = frozenset({"cycler", "joiner", "lipsum"})
"""What Jinja has in every template and an app has not."""


@dataclass(frozen=True)
class TemplateProgram:
    """A chat template's tree.

    Attributes:
        tree: nodes as JSON.
        variables: the texts that the template finds by name, such as ``bos_token``.
    """

    tree: str
    variables: Mapping[str, str]


def template_program(template: str, variables: Mapping[str, Any]) -> TemplateProgram | None:
    """The program of a template; None where it needs what an app does not know.

    Args:
        template: as the tokenizer has it.
        variables: the tokenizer's special tokens by name.
    """
    import jinja2

    if len(template) > _MOST_CHARACTERS:
        return None
    try:
        tree = json.dumps(_Writer().body(_parsed(template).body), ensure_ascii=False, separators=(",", ":"))
        if _depth(tree) > _DEEPEST:
            return None
    except (jinja2.TemplateError, RecursionError, _Unknown):
        return None
    texts = {name: text for name, text in variables.items() if isinstance(text, str)}
    return TemplateProgram(tree, texts)


def _depth(tree: str) -> int:
    """How deep a JSON text is nested; brackets in its texts count, too."""
    changes = (1 if each in "[{" else -1 if each in "]}" else 0 for each in tree)
    return max(accumulate(changes), default=0)


class _Unknown(Exception):
    """The template has something that an app does not know."""


def _parsed(template: str) -> Any:
    """The template as transformers' environment parses it; nothing of it is executed."""
    import jinja2.ext

    class Generation(jinja2.ext.Extension):
        """transformers' marks around what the model wrote, which render as what stands between them."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=line)

    extensions: list[str | type[jinja2.ext.Extension]] = ["jinja2.ext.loopcontrols", Generation]
    return jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=extensions).parse(template)


class _Writer:
    """Writes nodes as lists."""

    def body(self, nodes: Any) -> Tree:
        return [self.node(each) for each in nodes]

    def node(self, node: Any) -> Tree:
        kind = type(node).__name__
        own = getattr(self, f"_{kind.lower()}", None)
        if own is not None:
            return [kind, *own(node)]
        if kind not in _PARTS:
            raise _Unknown(kind)
        return [kind, *(self._part(getattr(node, name)) for name in _PARTS[kind])]

    def _part(self, part: Any) -> Tree:
        if isinstance(part, list | tuple):
            return [self._part(each) for each in part]
        return part if part is None or isinstance(part, str | bool | int) else self.node(part)

    def _const(self, node: Any) -> Tree:
        value = node.value
        if value is not None and not isinstance(value, str | bool | int | float):
            raise _Unknown(type(value).__name__)
        # JSON's numbers do not tell 1 from 1.0.
        return ["float", repr(value)] if isinstance(value, float) else [type(value).__name__, value]

    def _for(self, node: Any) -> Tree:
        if node.recursive:
            raise _Unknown("recursive")
        return [
            self.node(node.target),
            self.node(node.iter),
            self.body(node.body),
            self.body(node.else_),
            self._part(node.test),
        ]

    def _assignblock(self, node: Any) -> Tree:
        if node.filter is not None:
            raise _Unknown("filter")
        return [self.node(node.target), self.body(node.body)]

    def _macro(self, node: Any) -> Tree:
        names = [argument.name for argument in node.args]
        return [node.name, names, self._part(node.defaults), self.body(node.body)]

    def _filter(self, node: Any) -> Tree:
        if node.name not in _FILTERS or node.node is None:
            raise _Unknown(node.name)
        return [self.node(node.node), node.name, *self._arguments(node)]

    def _test(self, node: Any) -> Tree:
        if node.name not in _TESTS:
            raise _Unknown(node.name)
        return [self.node(node.node), node.name, *self._arguments(node)]

    def _call(self, node: Any) -> Tree:
        called = node.node
        if type(called).__name__ == "Name" and called.name in _NO_FUNCTIONS:
            raise _Unknown(called.name)
        if type(called).__name__ == "Name" and called.name == "strftime_now":
            self._check_dates(node.args)
        if type(called).__name__ == "Getattr" and called.attr not in _METHODS | _LOOP:
            raise _Unknown(called.attr)
        return [self.node(called), *self._arguments(node)]

    def _check_dates(self, formats: Any) -> None:
        for given in formats:
            if not (type(given).__name__ == "Const" and has_known_directives(str(given.value))):
                raise _Unknown("strftime_now")

    def _name(self, node: Any) -> Tree:
        return [node.name]

    def _arguments(self, node: Any) -> list[Tree]:
        if getattr(node, "dyn_args", None) is not None or getattr(node, "dyn_kwargs", None) is not None:
            raise _Unknown("*")
        return [self.body(node.args), {pair.key: self.node(pair.value) for pair in node.kwargs}]


_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow", "And", "Or"), ("left", "right")),
    **dict.fromkeys(("Not", "Neg", "Pos"), ("node",)),
    "Output": ("nodes",),
    "TemplateData": ("data",),
    "If": ("test", "body", "elif_", "else_"),
    "Assign": ("target", "node"),
    "ExprStmt": ("node",),
    "Scope": ("body",),
    "Break": (),
    "Continue": (),
    "NSRef": ("name", "attr"),
    "Tuple": ("items",),
    "List": ("items",),
    "Dict": ("items",),
    "Pair": ("key", "value"),
    "CondExpr": ("test", "expr1", "expr2"),
    "Concat": ("nodes",),
    "Compare": ("expr", "ops"),
    "Operand": ("op", "expr"),
    "Getattr": ("node", "attr"),
    "Getitem": ("node", "arg"),
    "Slice": ("start", "stop", "step"),
}
