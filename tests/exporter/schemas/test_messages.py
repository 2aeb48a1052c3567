"""Messages with calls as automata: they allow the bytes and special tokens that the library of `edgec run` allows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from edgec.bundle.tools import tools_of
from edgec.exporter.schemas.messages import UNUSED_BYTES, compile_message
from edgec.runtime_py.messages.grammar import ToolChoice, message_grammar
from edgec.runtime_py.structured.engine import GrammarEngine
from edgec.runtime_py.structured.vocabulary import Vocabulary
from tests.exporter.schemas.walker import Walker
from tests.runtime_py.generation.test_calls import AHEAD, CASES, FORMS, WRITTEN
from tests.runtime_py.messages.talk import NOW, TOOLS

NESTED = {
    "function": {
        "name": "now.plan",
        "parameters": {
            "properties": {
                "to": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
                "by": {"anyOf": [{"type": "string", "enum": ["bus", "car"]}, {"type": "null"}]},
                "many": {"type": "array", "items": {"type": "integer"}},
                "why": {"type": "string"},
            },
            "required": ["by"],
        },
    }
}
ALL = tools_of([*TOOLS, NESTED])
CHOICES = {
    "auto": ToolChoice(ALL),
    "auto, one": ToolChoice(ALL, parallel=False),
    "required": ToolChoice(ALL, required=True),
    "required, one": ToolChoice(ALL, required=True, parallel=False),
    "one tool": ToolChoice(tools_of([NOW]), required=True),
}
WALKS, STEPS = 5, 90
_BYTES = 257


def _vocabulary(special: tuple[str, ...]) -> Vocabulary:
    """Bytes, the end of a text, and special tokens."""
    tokens = (*(bytes([byte]) for byte in range(256)), *[b""] * (1 + len(special)))
    return Vocabulary(tokens, frozenset(range(256, len(tokens))), frozenset([256]))


def _difference(name: str, special: tuple[str, ...], choice: ToolChoice, seed: int) -> str:
    """Walk along both, partly along a call as models write it; says where they first allow something else."""
    ids = {text: _BYTES + place for place, text in enumerate(special)}
    symbols = {ids[text]: UNUSED_BYTES[place] for place, text in enumerate(special)}
    grammar = message_grammar(FORMS[name], choice, ids)
    walker = Walker(compile_message(grammar, symbols))
    matcher = GrammarEngine(_vocabulary(special)).compile(grammar.grammar)
    chance, said = random.Random(seed), list[int]()
    script = _script(name, ids, chance)
    for _ in range(STEPS + len(script)):
        allowed = [int(token) for token in np.flatnonzero(matcher.allowed()) if token != 256]
        theirs = {symbols.get(token, token) for token in allowed}
        mine = walker.next_bytes()
        if mine != theirs or walker.whole != matcher.accepting:
            more, less = bytes(sorted(mine - theirs)), bytes(sorted(theirs - mine))
            return f"after {said}: more {more!r}, less {less!r}, whole {walker.whole}, {matcher.accepting}"
        if not allowed:
            return ""
        token = script.pop(0) if script and script[0] in allowed else _likely(allowed, chance)
        said.append(token)
        walker.take(symbols.get(token, token))
        matcher.consume([token])
    return ""


def _script(name: str, ids: dict[str, int], chance: random.Random) -> list[int]:
    """The beginning of one or two calls as a model writes them, as tokens."""
    text = AHEAD.get(name, "Hm <to") + WRITTEN[name] + chance.choice(("", "\n" + WRITTEN[name]))
    out: list[int] = []
    while text:
        found = next((mark for mark in ids if text.startswith(mark)), None)
        out += [ids[found]] if found else text[0].encode()
        text = text.removeprefix(found) if found else text[1:]
    return out[: chance.randrange(len(out) + 1)]


def _likely(allowed: list[int], chance: random.Random) -> int:
    """A token, more often one that changes something than a letter."""
    marked = [token for token in allowed if token > 255 or chr(token) in '<"}]),:\n']
    return chance.choice(marked if marked and chance.random() < 0.5 else allowed)


@pytest.mark.long
@pytest.mark.sweep(20)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(("name", "special"), CASES)
def test_the_same_may_come_as_in_the_library(name: str, special: tuple[str, ...], choice: str) -> None:
    walks = [_difference(name, special, CHOICES[choice], seed) for seed in range(WALKS)]
    assert walks == [""] * WALKS
