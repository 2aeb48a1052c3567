"""Chat templates as text: Jinja in a sandbox, with the names that templates of transformers rely on.

Templates are written for transformers, whose renderer gives them ``tojson``, ``raise_exception``, ``strftime_now``,
``{% generation %}``, loop controls, and the reasoning of a message under each of its names. It takes two seconds to be
imported; this one takes 0.2, and `tests/bundle/test_template_renderer.py` holds it to the other's texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

_REASONING = ("reasoning_content", "thinking", "reasoning")
"""What a message's reasoning is called; templates read the first, gpt-oss's the second."""


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    *,
    answer: bool,
    variables: Mapping[str, Any],
    write_time: Callable[[str], str],
) -> str:
    """The text of a conversation.

    Args:
        template: a chat template.
        messages: JSON objects.
        tools: JSON objects, or None.
        answer: end where the assistant's answer begins.
        variables: further ones of the template.
        write_time: the time in a format of ``strftime``.

    Raises:
        TemplateError: the template is damaged, or refuses the messages; else what it raises.
    """

    def strftime_now(form: str) -> str:  # without the attributes of a partial one, which templates could read
        return write_time(form)

    compiled = _compiled(template)
    compiled.globals["strftime_now"] = strftime_now
    given = {"messages": [_with_reasoning(message) for message in messages], "tools": tools, "documents": None}
    return str(compiled.render({**variables, **given, "add_generation_prompt": answer}))


def _with_reasoning(message: Mapping[str, Any]) -> dict[str, Any]:
    held = next((message[name] for name in _REASONING if message.get(name) is not None), None)
    return dict(message) if held is None else {"thinking": held, **message, "reasoning_content": held}


class _Generation(Extension):
    """``{% generation %} ... {% endgeneration %}``: what is inside, which trainers mark as the assistant's."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The statements between the tags, in a scope of their own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return [nodes.Scope(body, lineno=line)]


class _Names(Namespace):
    """A namespace without names that begin with an underscore, which lead to Python's insides."""

    def __init__(*given: Any, **named: Any) -> None:
        """Take names as ``dict`` does; the first argument is the namespace, so that ``self`` may be a name, too."""
        self, *rest = given
        values = dict(*rest, **named)
        for name in values:
            _check_name(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a template's namespace holds no name like {name!r}")


class _Dict:
    """``dict`` as templates may use it: without attributes of the class."""

    def __call__(self, *given: Any, **named: Any) -> dict[Any, Any]:
        return dict(*given, **named)

    def fromkeys(self, *given: Any) -> dict[Any, Any]:
        """As ``dict.fromkeys``."""
        return dict.fromkeys(*given)


def _refuse(why: Any) -> NoReturn:
    raise TemplateError(str(why))


def _as_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without Jinja's escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@lru_cache(maxsize=16)
def _compiled(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _as_json
    environment.globals |= {"raise_exception": _refuse, "dict": _Dict(), "namespace": _Names}
    return environment.from_string(template)
