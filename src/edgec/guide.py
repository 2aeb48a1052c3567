"""The pages of the guide (``docs/``), which are installed along with edgec, and single rows of its table of errors."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

from edgec.errors import InputError

PAGES = Path(__file__).parent / "docs"
_TITLE = re.compile(r"^# +(.+)$", re.MULTILINE)
_CODE = re.compile(r"E\d{3}", re.IGNORECASE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


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


def error_row(code: str) -> tuple[str, str]:
    """What an error's code means and what to do, as docs/errors.md says it, without links.

    Raises:
        InputError: E950, no error has this code.
    """
    wanted = f"| {code.upper()} |"
    row = next((line for line in page("errors").splitlines() if line.startswith(wanted)), "")
    what, _, cure = row.removeprefix(wanted).strip("| ").partition(" | ")
    if not what:
        raise InputError(f"No error has the code {code!r}.", "edgec help", fix="edgec help errors", code="E950")
    return _LINK.sub(r"\1", what), _LINK.sub(r"\1", cure)


def show_topic(topic: str | None) -> None:
    """Print a page, the meaning of an error's code, or the names of all pages.

    Raises:
        InputError: E167, there is no such page; E950, no error has this code.
    """
    from edgec.terminal import WordTable, between_words, make_console

    console = make_console()
    if topic is None:
        table = WordTable("edgec help ...", "")
        for name, title in topics().items():
            table.add_row(name, title)
        console.print(table)
    elif _CODE.fullmatch(topic):
        what, cure = error_row(topic)
        for line in (f"{topic.upper()}  {what}", f"fix   {cure}"):
            console.print(between_words(line, console, 6), highlight=False, markup=False, soft_wrap=True)
    elif console.is_terminal:
        from rich.markdown import Markdown

        console.print(Markdown(page(topic)))
    else:
        print(page(topic), end="")
