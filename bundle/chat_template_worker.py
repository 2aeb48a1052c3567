"""The process that renders chat templates for `edgec.bundle.chat_template`; a template is somebody's program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from edgec.bundle.limited_worker import JobAnswer, answer_lines

MARKS = "marks"
DATE_BEGIN, DATE_END = "\ue013", "\ue014"
"""Around the format of a date that a template writes, where it is to be written later."""
_MAX_WHY = 300


def time_text(told: str | None, form: str) -> str:
    """The time in a format of ``strftime``: now, a given one, or a mark in its place."""
    if told is None:
        return datetime.now().strftime(form)
    if told == MARKS:
        return f"{DATE_BEGIN}{form}{DATE_END}"
    return datetime.fromisoformat(told).strftime(form)


def _answer() -> JobAnswer:
    from edgec.bundle.template_renderer import render

    return partial(_rendered, render)


def _rendered(render: Callable[..., str], job: Mapping[str, Any]) -> dict[str, str]:
    try:
        text = render(
            job["template"],
            job["messages"],
            job["tools"],
            answer=job["answer"],
            variables=job["variables"],
            write_time=partial(time_text, job.get("clock")),
        )
        if len(text) > job["characters"]:
            return {"limit": f"it wrote {len(text):,} characters, allowed are {job['characters']:,}"}
        return {"text": text}
    except MemoryError:
        raise
    except SystemError as error:  # what Python 3.13's compiler says where its memory ends
        raise MemoryError from error
    except RecursionError:
        return {"limit": "it calls itself without end"}
    except Exception as error:  # a template is somebody's program, and raises what it likes
        return {"refused": f"{type(error).__name__}: {error}"[:_MAX_WHY]}


if __name__ == "__main__":
    answer_lines(_answer)
