"""The conversations behind earlier responses, which ``previous_response_id`` goes on from: in memory, and few."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from edgec.runtime_py.serve.bodies import Said
from edgec.runtime_py.serve.problems import no_such_response

_MOST: Final = 1024
_MOST_CHARACTERS: Final = 64 << 20


@dataclass(frozen=True)
class KeptResponse:
    """A response as it was answered, and the messages up to its end, without instructions."""

    held: dict[str, Any]
    messages: tuple[Said, ...]
    characters: int


class KeptResponses:
    """Responses by their numbers; where there are too many, the oldest is forgotten."""

    def __init__(self, most: int = _MOST, most_characters: int = _MOST_CHARACTERS) -> None:
        """Keep at most so many responses, and so many characters of all their messages."""
        self._held: OrderedDict[str, KeptResponse] = OrderedDict()
        self._most, self._most_characters, self._characters = most, most_characters, 0

    def keep(self, held: dict[str, Any], messages: Sequence[Said]) -> None:
        """Keep a response."""
        size = sum(len(one.model_dump_json()) for one in messages)
        self._held[held["id"]] = KeptResponse(held, tuple(messages), size)
        self._characters += size
        while len(self._held) > self._most or (self._characters > self._most_characters and len(self._held) > 1):
            self.forget(next(iter(self._held)))

    def get(self, number: str) -> KeptResponse:
        """An earlier response.

        Raises:
            RequestError: E634, it was not kept, or is forgotten.
        """
        if number not in self._held:
            raise no_such_response(number)
        return self._held[number]

    def forget(self, number: str) -> None:
        """Keep a response no longer; raises as `get`."""
        self._characters -= self.get(number).characters
        del self._held[number]
