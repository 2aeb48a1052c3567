"""From what is asked for to the library's description of it; done in a process of its own, since anybody may ask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from edgec.bundle.limited_json import parse_json
from edgec.errors import InputError
from edgec.runtime_py.structured.engine import fault_of, library
from edgec.runtime_py.structured.refusals import empty, malformed, no_schema, not_enforced, too_much
from edgec.runtime_py.structured.schema.normalise import normalise

# Space between values: none, one blank, or a line with its indentation. Unbounded, a model may write nothing else.
_WHITESPACE: Final = r" |\n[ ]{0,16}|\n\t{0,8}"
# Without \u, so that no free name can spell a declared one.
_ESCAPES: Final = 'nrbtf\\"'
_MOST_SOUGHT: Final = 16
MOST_RULES: Final = 8_000
_SPECIAL: Final = re.compile(r"<[^\s<>]*>|%json|%llguidance|@")
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/|//[^\n]*|\#[^\n]*')


@dataclass(frozen=True)
class Description:
    """What a text is to be held to, as the library reads it.

    Attributes:
        grammar: the description.
        sought: a schema's patterns that may begin anywhere in a string, as descriptions of their own.
    """

    grammar: str
    sought: tuple[str, ...] = ()


def described_schema(schema: bytes) -> Description:
    """Describe a JSON Schema. Raises as `normalised`."""
    held, patterns = _normalised(schema)
    # The library takes its options from an object only.
    text = json.dumps({"allOf": [held]} if isinstance(held, bool) else held)
    overrides = {"whitespace_pattern": _WHITESPACE, "json_allowed_escapes": _ESCAPES, "lenient": False}
    made = library().LLMatcher.grammar_from_json_schema(text, overrides={**overrides, "coerce_one_of": False})
    if fault := fault_of(made):
        raise _schema_fault(fault)
    return Description(made, tuple(_sought(patterns)))


def normalised(schema: bytes) -> Any:
    """A JSON Schema as it is enforced, without annotations.

    Raises:
        InputError: E612 to E615.
    """
    return _normalised(schema)[0]


def described_regex(regex: bytes) -> Description:
    """Describe a regular expression. Raises InputError E616."""
    made = library().LLMatcher.grammar_from_regex(regex.decode())
    if fault := fault_of(made):
        raise malformed("regex", fault)
    return Description(made)


def described_grammar(grammar: bytes) -> Description:
    """Describe a grammar in Lark's notation or GBNF. Raises InputError E614, E616."""
    text = grammar.decode()
    bare = _QUOTED.sub("", text)
    special = _SPECIAL.search(bare)
    if special and "::=" not in text:
        raise malformed("grammar", f"{special[0]} is not supported: no special tokens, schemas or options inside")
    if (count := bare.count("::=" if "::=" in text else ":")) > MOST_RULES:  # each rule and each terminal has one
        raise too_much("grammar", f"it has about {count:,} rules and terminals, and may have {MOST_RULES:,}")
    try:
        made = library().grammar_from("gbnf" if "::=" in text else "lark", text)
    except ValueError as error:
        raise malformed("grammar", str(error)) from error
    if fault := fault_of(made):
        raise malformed("grammar", fault)
    return Description(json.dumps({"grammars": [{"lark_grammar": made}]}))


def _normalised(schema: bytes) -> tuple[Any, dict[str, None]]:
    """A schema as it is enforced, and the patterns in it."""
    patterns: dict[str, None] = {}

    def checked(pattern: str) -> str:
        patterns[pattern] = None
        made = library().LLMatcher.grammar_from_json_schema({"type": "string", "pattern": pattern})
        fault = fault_of(made)
        return "" if "nsatisfiable" in fault else fault

    return normalise(_parsed(schema), checked), patterns


def _parsed(schema: bytes) -> Any:
    try:
        return parse_json(schema)
    except ValueError as error:
        raise no_schema("schema", str(error)) from error


def _sought(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in [pattern for pattern in patterns if not pattern.startswith("^")][:_MOST_SOUGHT]:
        made = str(library().LLMatcher.grammar_from_regex(pattern.removesuffix("$")))
        if not fault_of(made):
            yield made


def _schema_fault(fault: str) -> InputError:
    """What the library says of a schema that was checked before."""
    if "nsatisfiable" in fault or "is empty" in fault:
        return empty("schema", fault)
    named = {
        "min/maxProperties": "maxProperties",
        "attern propert": "patternProperties",
        "patternProperties": "patternProperties",
        "multipleOf": "multipleOf",
        "circular references": "$ref",
        "Schema intersection": "allOf",
    }
    keyword_at_fault = next((keyword for words, keyword in named.items() if words in fault), None)
    return not_enforced(keyword_at_fault, "schema", fault) if keyword_at_fault else too_much("schema", fault)
