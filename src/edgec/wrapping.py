"""Messages that end their lines between words; apart from `edgec.terminal`, since an error should not wait for rich."""

from __future__ import annotations

import shutil
import sys
import textwrap


def wrapped(text: str) -> str:
    """A message for stderr: at a terminal its lines end between words, elsewhere it stays as it is."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(_filled(line, width) for line in text.splitlines())


def _filled(line: str, width: int) -> str:
    inset = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(line, width, subsequent_indent=inset, break_long_words=False, break_on_hyphens=False)
