"""How commands print: at a terminal as wide as it is, elsewhere wide and plain; tables never break a word.

NO_COLOR is honoured by rich. Nothing here is imported before a command has something to print.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from edgec.durations import time_left

# Columns of a pipe or a file: wide enough for every table of edgec in one piece.
PIPED_WIDTH = 400
# Columns of a page that people read, whether it reaches them by a terminal or by a log.
SCREEN = 80


_STYLE: Final[Mapping[str, Any]] = {
    **{"box": None, "pad_edge": False, "header_style": "dim", "title_style": "bold"},
    **{"title_justify": "left", "caption_justify": "left"},
}


class PipedConsole(Console):
    """A console without a terminal: a pipe or a file, read by programs."""


def make_console(stderr: bool = False, piped: int = PIPED_WIDTH) -> Console:
    """A console on stdout, or on stderr; without a terminal ``piped`` columns wide, without colours and lines."""
    made = Console(stderr=stderr, highlight=False)
    if made.is_terminal:
        return made
    return PipedConsole(stderr=stderr, highlight=False, width=piped, no_color=True)


def between_words(line: str, console: Console, inset: int) -> str:
    """A line that ends between words at a terminal, further ones after ``inset`` spaces; elsewhere it stays one."""
    if isinstance(console, PipedConsole):
        return line
    space = " " * inset
    return textwrap.fill(line, console.width, subsequent_indent=space, break_long_words=False, break_on_hyphens=False)


class WordTable(Table):
    """A table in the one style of all commands, whose lines break between words only.

    rich narrows the widest columns first, without regard to their words. This one takes width from the widest column
    that can still spare some. Where that is not enough it leaves out the columns of ``optional`` (heads, the first one
    first) and says so; where even that is not enough, each row becomes a list.
    """

    optional: tuple[str, ...] = ()

    def __init__(self, *heads: str, **options: Any) -> None:
        """Begin a table; takes the options of rich's."""
        super().__init__(*heads, **{**_STYLE, **options})

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Choose columns and widths for this console, then draw."""
        every = self.columns
        for count in range(len(self.optional) + 1):
            left_out = self.optional[:count]
            self.columns = _numbered([column for column in every if column.header not in left_out])
            spans = [_span(console, options, column) for column in self.columns]
            if (widths := fitted(spans, options.max_width - self._borders(console, options, spans))) is not None:
                with self._of_widths(widths):
                    yield from super().__rich_console__(console, options)
                if left_out:
                    yield Text(f"left out (terminal too narrow): {', '.join(left_out)}", "dim")
                break
        self.columns = _numbered(every)
        if widths is None:
            yield from self._records(console)

    def _borders(self, console: Console, options: ConsoleOptions, spans: list[Measurement]) -> int:
        """The cells that lines and padding take in addition to the columns."""
        least, self.min_width = self.min_width, None
        # Columns of known widths are not measured again: rendering every cell takes most of a large table's time.
        with self._of_widths([span.maximum for span in spans]):
            whole = Measurement.get(console, options.update(max_width=PIPED_WIDTH * 4), self).maximum
        self.min_width = least
        return whole - sum(span.maximum for span in spans)

    @contextmanager
    def _of_widths(self, widths: list[int]) -> Iterator[None]:
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        yield
        for column in self.columns:
            column.width = None

    def _records(self, console: Console) -> Iterator[Text]:
        """Every row as lines ``head: value``, with an empty line after it."""
        if self.title:
            yield _text(console, self.title)
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            for column, cell in zip(self.columns, cells, strict=True):
                value, head = _text(console, cell), _text(console, column.header)
                if value.plain:
                    yield Text.assemble(head, ": ", value) if head.plain else value
            yield Text("")
        if self.caption:
            yield _text(console, self.caption)


def _numbered(columns: list[Column]) -> list[Column]:
    """The same columns with their places among each other: rich pads the first and the last one by its number."""
    for place, column in enumerate(columns):
        column._index = place
    return columns


def _text(console: Console, content: object) -> Text:
    return content if isinstance(content, Text) else console.render_str(str(content))


def _span(console: Console, options: ConsoleOptions, column: Column) -> Measurement:
    """The longest word and the longest line of a column, in cells."""
    wide = options.update(max_width=PIPED_WIDTH)
    measured = [Measurement.get(console, wide, cell) for cell in (column.header, *column.cells)]
    longest = max(one.maximum for one in measured)
    return Measurement(longest if column.no_wrap else max(one.minimum for one in measured), longest)


def fitted(spans: list[Measurement], available: int) -> list[int] | None:
    """Widths of columns that together take at most ``available`` cells, or None where their words do not fit."""
    if sum(span.minimum for span in spans) > available:
        return None
    widths = [span.maximum for span in spans]
    while sum(widths) > available:
        spare = [index for index, span in enumerate(spans) if widths[index] > span.minimum]
        widths[max(spare, key=widths.__getitem__)] -= 1
    return widths


@contextmanager
def counted_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr for work that is counted in steps; one line where stderr is not a terminal.

    Yields a function that takes the steps done and all steps. Before its first call nothing is shown, so that work
    which turns out to be done already leaves no trace.
    """
    console = make_console(stderr=True)
    if not console.is_terminal:
        yield _announcing(what)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
    bar, began = Progress(*columns, console=console, transient=True), time.monotonic()
    task = bar.add_task(what, total=1.0, left="")

    def show(done: int, steps: int) -> None:
        bar.start()
        left = (time.monotonic() - began) * (steps - done) / done if done else None
        bar.update(task, completed=done / steps, left="" if left is None else f"about {time_left(left)} to go")

    try:
        yield show
    finally:
        bar.stop()


def _announcing(what: str) -> Callable[[int, int], None]:
    def announce(done: int, steps: int) -> None:
        if done == 0:
            print(f"edgec: {what}", file=sys.stderr, flush=True)

    return announce
