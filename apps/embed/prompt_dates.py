"""Dates in prompts: as marks around their formats, which an app fills in on the day."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from edgec.bundle.chat_template_worker import DATE_BEGIN, DATE_END
from edgec.bundle.golden_texts import GOLDEN_DAY

_MARKED: Final = re.compile(f"{DATE_BEGIN}([^{DATE_END}]*){DATE_END}")
DIRECTIVES: Final = "aAbBdeHIjmMpSyY%"
"""The directives of strftime that apps write; ``-`` in front of one leaves out its leading zeros."""
_PLAIN: Final = re.compile(f"(?:[^%]|%-?[{DIRECTIVES}])*")


def filled(text: str, day: str = GOLDEN_DAY) -> str:
    """A text with the dates of a day in place of their marks."""
    when = datetime.fromisoformat(day)
    return _MARKED.sub(lambda mark: when.strftime(mark[1]), text)


def can_be_written(text: str) -> bool:
    """Whether an app can write every date of a text with marks."""
    return all(map(has_known_directives, _MARKED.findall(text)))


def has_known_directives(form: str) -> bool:
    """Whether an app can write a date in a format of strftime."""
    return _PLAIN.fullmatch(form) is not None
