"""The progress of an export in a notebook: a bar below the cell, where the caller has no listener of their own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import Any

from edgec.durations import time_left
from edgec.exporter.progress import Event, Listener

_EVERY_S = 0.2


@dataclass
class NotebookBar:
    """A bar that is drawn once and then changed in place; it says in the end how long the export took.

    Attributes:
        display: IPython's, which returns a handle of what it has drawn.
        clock: returns seconds since some fixed moment.
    """

    display: Callable[..., Any]
    clock: Callable[[], float] = time.monotonic
    _event: Event | None = None
    _notes: list[str] = field(default_factory=list)
    _handle: Any = None
    _began: float = 0.0
    _drawn: float = 0.0

    def __call__(self, event: Event) -> None:
        """Take an event; the bar changes with each stage, and within one at most five times a second."""
        if event.noted:
            self._notes.append(event.detail)
        before, self._event, now = self._event, event, self.clock()
        if before is None:
            self._began = self._drawn = now
            self._handle = self.display(self, display_id=True)
        elif event.noted or event.stage != before.stage or now - self._drawn >= _EVERY_S:
            self._drawn = now
            self._handle.update(self)

    def __repr__(self) -> str:
        """For notebooks that are shown as text."""
        return "\n".join([*self._notes, self._line()])

    def _repr_html_(self) -> str:
        notes = "".join(f"<div>{escape(note)}</div>" for note in self._notes)
        event = self._event
        if event is None or event.stage == "done":
            return f"{notes}<div>{escape(self._line())}</div>"
        bar = f'<progress value="{event.overall:.3f}" max="1" style="width: 20em"></progress>'
        return f"{notes}<div>{bar} {escape(self._line())}</div>"

    def _line(self) -> str:
        event = self._event
        if event is None:
            return ""
        if event.stage == "done":
            return f"exported in {time_left(self._drawn - self._began)}"
        left = "" if event.eta_s is None else f"about {time_left(event.eta_s)} to go (estimated)"
        detail = "from the cache" if event.cached else "" if event.noted else event.detail
        return "  ".join(filter(None, [f"{event.overall:4.0%}", event.stage, left, detail]))


def notebook_listener() -> Listener | None:
    """A bar below the running cell of a notebook; None in every other process."""
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    return NotebookBar(import_module("IPython.display").display)
