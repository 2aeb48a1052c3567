"""A grammar in the making: text with special tokens in it, JSON of a schema, and the rules over both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from edgec.errors import EdgecError
from edgec.runtime_py.structured.refusals import too_much
from edgec.runtime_py.structured.wanted import Wanted, wanted

_MOST_SCHEMAS: Final = 4_096
_SHARED: Final = (
    # Tokens may spell what must come in any way: by default the library allows one alone, of its own tokenizer.
    '%llguidance {"no_forcing": true}',
    r"TEXT: /(.|\n)*/",
    r"WS: /[ \n]{0,2}/",
    "BLANK: / ?/",
)


def pieces_of(text: str, special: Mapping[str, int]) -> list[str | int]:
    """A text cut at the special tokens in it, which stand there as their ids."""
    out: list[str | int] = []
    while text:
        places = [(text.find(name), -len(name), name) for name in special if name and name in text]
        if not places:
            return [*out, text]
        place, _, name = min(places)
        out += [text[:place]] if place else []
        out.append(special[name])
        text = text[place + len(name) :]
    return out


class Sheet:
    """Rules and schemas of one grammar.

    Attributes:
        special: the ids of special tokens by their text; such a token is one symbol, never its letters.
    """

    def __init__(self, special: Mapping[str, int]) -> None:
        """Begin an empty sheet."""
        self.special = special
        self._rules: list[str] = []
        self._schemas: list[dict[str, Any]] = []
        self._places: dict[str, str] = {}
        self._asked = 0

    def text(self, text: str) -> str:
        """The expression of a text as it stands."""
        parts = pieces_of(text, self.special)
        return " ".join(f"<[{part}]>" if isinstance(part, int) else json.dumps(part) for part in parts)

    def starts_special(self, text: str) -> bool:
        """Whether a text begins with a special token."""
        return bool(text) and isinstance(pieces_of(text, self.special)[0], int)

    def json(self, schema: Any, where: str) -> str:
        """The expression of JSON that fulfils a schema.

        Raises:
            InputError: E612 to E615, the schema cannot be enforced, or there are too many; ``where`` names its owner.
        """
        self._asked += 1
        if self._asked > _MOST_SCHEMAS:
            raise too_much(where, f"the tools of one message may have {_MOST_SCHEMAS:,} schemas")
        try:
            made = wanted(schema=schema)
        except EdgecError as error:
            raise replace(error, where=f"{where}, {error.where}") from error
        assert made is not None
        held = json.loads(made.grammar)["grammars"][0]["json_schema"]
        key = json.dumps(held)
        if key not in self._places:
            self._places[key] = f"json_{len(self._schemas)}"
            self._schemas.append({"name": self._places[key], "json_schema": held})
        return f"@{self._places[key]}"

    def rule(self, expression: str, *, lazy: bool = False) -> str:
        """Name an expression; lazy: it ends as soon as it can."""
        name = f"part_{len(self._rules)}"
        self._rules.append(f"{name}{'[lazy]' if lazy else ''}: {expression}")
        return name

    def finished(self, start: str) -> Wanted:
        """The whole, which begins with an expression."""
        lark = "\n".join([*_SHARED, f"start: {start}", *self._rules]) + "\n"
        grammars = [{"name": "message", "lark_grammar": lark}, *self._schemas]
        return Wanted("grammar", json.dumps({"grammars": grammars}))


def one_of(expressions: Sequence[str]) -> str:
    """Any of some expressions."""
    return f"({' | '.join(expressions)})"
