"""The structures of one model's texts: its vocabulary read once, each schema or grammar compiled once."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Final

from edgec.runtime_py.engines.engine_structure import EngineStructure
from edgec.runtime_py.structured.closing import Closer
from edgec.runtime_py.structured.constraint import Constraint
from edgec.runtime_py.structured.engine import GrammarEngine, Matcher
from edgec.runtime_py.structured.vocabulary import Vocabulary
from edgec.runtime_py.structured.wanted import Wanted

OpenStructure = Callable[[], EngineStructure]
_KEPT: Final = 32
_LONGEST_HINT: Final = 64


@dataclass(frozen=True)
class CompiledStructure:
    """A structure for one vocabulary, as `Structure`.

    Attributes:
        held: the same in the engine, which then closes texts as in an app.
    """

    wanted: Wanted
    matcher: Matcher
    closer: Closer
    held: EngineStructure | None = None

    def begin(self, budget: int) -> Constraint:
        """Begin a text of this structure of at most ``budget`` tokens."""
        if self.held is not None:
            return Constraint(self.matcher.fork(), None, budget, self.held.begin(max(budget, 1)))
        return Constraint(self.matcher.fork(), self.closer, budget)

    def value(self, text: str) -> Any:
        """The value of a whole text: what its JSON says, or the text itself."""
        return self.wanted.value(text)


class Structures:
    """Compiles for one vocabulary, and keeps what it compiled; threads take turns.

    Attributes:
        vocabulary: what tokens write.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Begin with nothing compiled."""
        self.vocabulary = vocabulary
        self._kept: OrderedDict[tuple[str, int], CompiledStructure] = OrderedDict()
        self._turn = Lock()

    @cached_property
    def engine(self) -> GrammarEngine:
        """The library with the vocabulary."""
        return GrammarEngine(self.vocabulary)

    @cached_property
    def _closer(self) -> Closer:
        return Closer(self.engine.vocabulary)

    def compiled(self, wanted: Wanted, held: OpenStructure | None = None) -> CompiledStructure:
        """The structure that is wanted, compiled now or before.

        Args:
            wanted: the structure.
            held: opens the same in the engine; None where the engine does not know it.

        Raises:
            InputError: E614, it exceeds the library's limits; E714, the engine cannot read it.
        """
        with self._turn:
            return self._compiled(wanted, held)

    def _compiled(self, wanted: Wanted, held: OpenStructure | None) -> CompiledStructure:
        key = (wanted.key, id(wanted.model))
        if key not in self._kept:
            matcher, hints = self.engine.compile(wanted.grammar), [self._shortest(sought) for sought in wanted.sought]
            closer = self._closer.hinted([hint for hint in hints if hint])
            self._kept[key] = CompiledStructure(wanted, matcher, closer, held() if held is not None else None)
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]

    def _shortest(self, grammar: str) -> bytes:
        """A short text of a description as it stands within a JSON string; empty where none is found."""
        way = self._closer.find_way_out(self.engine.compile(grammar), _LONGEST_HINT) or ()
        text = b"".join(self.engine.vocabulary.tokens[token] for token in way).decode(errors="replace")
        return json.dumps(text, ensure_ascii=False)[1:-1].encode()
