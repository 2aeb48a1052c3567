"""The structures of one model's texts: its vocabulary read once, each schema or grammar compiled once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from edgec.runtime_py.engines.engine_structure import EngineStructure
from edgec.runtime_py.structured.constraint import Constraint
from edgec.runtime_py.structured.remote import RemoteStructure
from edgec.runtime_py.structured.vocabulary import Vocabulary
from edgec.runtime_py.structured.wanted import Wanted
from edgec.runtime_py.structured.worker.processes import Workers

OpenStructure = Callable[[], EngineStructure]
_KEPT: Final = 32
_KEPT_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class CompiledStructure:
    """A structure for one vocabulary, as `Structure`.

    Attributes:
        held: the same in the engine, which then closes texts as in an app.
    """

    wanted: Wanted
    compiled: RemoteStructure
    held: EngineStructure | None = None

    def begin(self, budget: int, *, closes: bool = True) -> Constraint:
        """Begin a text of this structure of at most ``budget`` tokens; ``closes``: it is closed before they run out."""
        vocabulary = self.compiled.vocabulary
        if self.held is not None:
            text = self.compiled.begin(budget, closes=False, masks=False)
            return Constraint(text, vocabulary, self.held.begin(max(budget, 1)))
        return Constraint(self.compiled.begin(budget, closes=closes), vocabulary)

    def value(self, text: str) -> Any:
        """The value of a whole text: what its JSON says, or the text itself."""
        return self.wanted.value(text)


class Structures:
    """Compiles for one vocabulary, and keeps what it compiled, each in a process of its own.

    Attributes:
        vocabulary: what tokens write.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Begin with nothing compiled."""
        self.vocabulary = vocabulary
        self._workers = Workers(vocabulary)
        self._kept: OrderedDict[tuple[str, int], CompiledStructure] = OrderedDict()
        self._turn = Lock()

    def compiled(self, wanted: Wanted, held: OpenStructure | None = None) -> CompiledStructure:
        """The structure that is wanted, compiled now or before.

        Args:
            wanted: the structure.
            held: opens the same in the engine; None where the engine does not know it.

        Raises:
            InputError: E614, it exceeds a limit; E714, the engine cannot read it.
            ToolError: E647, no process can be started to hold it.
        """
        key = (wanted.key, id(wanted.model))
        with self._turn:
            known = self._kept.get(key)
        if known is None or not known.compiled.alive:
            # Outside of the lock: whoever else compiles meanwhile does not wait for this one.
            compiled = RemoteStructure(self._workers.fork(), self.vocabulary, wanted.grammar, wanted.sought)
            known = CompiledStructure(wanted, compiled, held() if held is not None else None)
        with self._turn:
            self._keep(key, known)
        return known

    def _keep(self, key: tuple[str, int], one: CompiledStructure) -> None:
        """Keep a structure, and let go those that were used longest ago, as far as they are too many or too large."""
        self._kept[key] = one
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and (len(self._kept) > _KEPT or self._held_bytes() > _KEPT_BYTES):
            self._kept.popitem(last=False)

    def _held_bytes(self) -> int:
        return sum(one.compiled.grown_bytes for one in self._kept.values())
