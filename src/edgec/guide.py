"""The pages of the guide (``docs/``), which are installed along with edgec."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

from edgec.errors import InputError

PAGES = Path(__file__).parent / "docs"
_TITLE = re.compile(r"^# +(.+)$", re.MULTILINE)


def topics() -> dict[str, str]:
    """The name of every page, with its title."""
    pages = (path for path in sorted(PAGES.glob("*.md")) if path.stem != "README")
    return {path.stem: _title(path) for path in pages}


def _title(path: Path) -> str:
    title = _TITLE.search(path.read_text(encoding="utf-8"))
    return title[1] if title else path.stem


def page(topic: str) -> str:
    """The text of a page, Markdown.

    Raises:
        InputError: E167, there is no such page; the nearest name is suggested.
    """
    known = topics()
    if topic not in known:
        near = get_close_matches(topic, known, n=1)
        fix = f"did you mean edgec help {near[0]}?" if near else "edgec help lists the pages"
        raise InputError(f"There is no page {topic!r} in the guide.", "edgec help", fix=fix, code="E167")
    return (PAGES / f"{topic}.md").read_text(encoding="utf-8")


def show_topic(topic: str | None) -> None:
    """Print a page, or the names of all pages.

    Raises:
        InputError: E167, there is no such page.
    """
    from edgec.terminal import WordTable, make_console

    console = make_console()
    if topic is None:
        table = WordTable("edgec help ...", "")
        for name, title in topics().items():
            table.add_row(name, title)
        console.print(table)
    elif console.is_terminal:
        from rich.markdown import Markdown

        console.print(Markdown(page(topic)))
    else:
        print(page(topic), end="")
