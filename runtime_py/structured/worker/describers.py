"""Processes that describe schemas, regular expressions and grammars; no vocabulary is needed for that."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from edgec.runtime_py.structured.descriptions import Description
from edgec.runtime_py.structured.worker.processes import Worker, Workers

_MOST_IDLE: Final = 4


class Describers:
    """One process for each caller at a time, kept for the next one while it lives."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._workers = Workers()
        self._idle: deque[Worker] = deque(maxlen=_MOST_IDLE)

    def describe(self, kind: str, given: bytes) -> Description:
        """The description of a ``schema`` (as JSON), ``regex`` or ``grammar``.

        Raises:
            InputError: E612 to E616.
            ToolError: E647, no process can be started.
        """
        answer, made = self._asked({"do": "describe", "kind": kind}, given)
        return Description(made.decode(), tuple(answer["sought"]))

    def normalise(self, schema: bytes) -> Any:
        """A schema, given as JSON, as it is enforced. Raises as `describe`."""
        return json.loads(self._asked({"do": "normalise", "kind": "schema"}, schema)[1])

    def _asked(self, message: Mapping[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        worker = self._free()
        try:
            return worker.ask(message, payload)
        finally:
            if worker.alive:
                self._idle.append(worker)

    def _free(self) -> Worker:
        with suppress(IndexError):
            while True:
                worker = self._idle.pop()
                if worker.alive:
                    return worker
        return self._workers.fork()


DESCRIBERS: Final = Describers()
