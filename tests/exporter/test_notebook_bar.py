"""An export in a notebook draws one bar and changes it in place; elsewhere there is none."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import edgec
from edgec.errors import InputError
from edgec.exporter.notebook_bar import NotebookBar, notebook_listener
from edgec.exporter.progress import Event


class Cell:
    """A cell's output: what was drawn first, and the text at each change."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    def display(self, shown: Any, display_id: bool) -> Cell:
        assert display_id
        self.update(shown)
        return self

    def update(self, shown: Any) -> None:
        self.drawn.append(repr(shown))


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """A process that believes to be a notebook's kernel."""
    made = Cell()
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=made.display))
    return made


def test_the_bar_changes_with_each_stage_and_otherwise_five_times_a_second() -> None:
    cell, seconds = Cell(), iter([0.0, 0.1, 0.25, 0.3, 7.0])
    bar = NotebookBar(cell.display, clock=lambda: next(seconds))
    for step, done in [("resolve", 0.0), ("resolve", 0.01), ("resolve", 0.02), ("lower", 0.5), ("done", 1.0)]:
        bar(Event(step, 0.0, done, 12.0 if step == "lower" else None, "<weights>"))
    assert cell.drawn == [
        "  0%  resolve  <weights>",
        "  2%  resolve  <weights>",
        " 50%  lower  about 12 s to go (estimated)  <weights>",
        "exported in 7 s",
    ]


def test_the_html_has_a_bar_until_it_is_done_and_is_escaped() -> None:
    bar = NotebookBar(Cell().display)
    bar(Event("lower", 0.5, 0.4, None, "<script>"))
    bar(Event("lower", 0.5, 0.4, None, "a <note>", noted=True))
    shown = bar._repr_html_()
    assert '<progress value="0.400" max="1"' in shown and "a &lt;note&gt;" in shown and "<script>" not in shown
    bar(Event("done", 1.0, 1.0, 0.0))
    assert "<progress" not in bar._repr_html_() and "a &lt;note&gt;" in bar._repr_html_()


def test_there_is_none_outside_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert notebook_listener() is None
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert notebook_listener() is None


def test_an_export_draws_it_unless_it_is_given_a_listener(cell: Cell, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        edgec.export(str(tmp_path / "none"), progress=lambda _: None)
    assert cell.drawn == []
    with pytest.raises(InputError):
        edgec.export(str(tmp_path / "none"))
    assert cell.drawn and "resolve" in cell.drawn[0]
