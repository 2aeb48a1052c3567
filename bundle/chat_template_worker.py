"""The process that renders chat templates for `edgec.bundle.chat_template`; a template is somebody's program."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from edgec.bundle.limited_worker import JobAnswer, answer_lines

MARKS = "marks"
DATE_BEGIN, DATE_END = "\ue013", "\ue014"
"""Around the format of a date that a template writes, where it is to be written later."""
_MAX_WHY = 300


class _Clock:
    """What templates are told of the time: the real one, a given one, or marks in its place."""

    def __init__(self, told: str | None) -> None:
        self._told = told

    def now(self) -> Any:
        """What writes the time in a format."""
        return datetime.now() if self._told is None else self

    def strftime(self, form: str) -> str:
        """The time that was given, or a mark."""
        if self._told in (None, MARKS):
            return f"{DATE_BEGIN}{form}{DATE_END}"
        return datetime.fromisoformat(str(self._told)).strftime(form)


def _answer() -> JobAnswer:
    from transformers.utils import chat_template_utils

    return partial(_rendered, chat_template_utils)


def _rendered(renderer: Any, job: Mapping[str, Any]) -> dict[str, str]:
    # Its ``strftime_now`` asks this name for the time; a function among the variables would become a text.
    renderer.datetime = _Clock(job.get("clock"))
    try:
        texts, _ = renderer.render_jinja_template(
            conversations=[job["messages"]],
            tools=job["tools"],
            chat_template=job["template"],
            add_generation_prompt=job["answer"],
            **job["variables"],
        )
        text = str(texts[0])
        if len(text) > job["characters"]:
            return {"limit": f"it wrote {len(text):,} characters, allowed are {job['characters']:,}"}
        return {"text": text}
    except MemoryError:
        raise
    except RecursionError:
        return {"limit": "it calls itself without end"}
    except Exception as error:  # a template is somebody's program, and raises what it likes
        return {"refused": f"{type(error).__name__}: {error}"[:_MAX_WHY]}


if __name__ == "__main__":
    answer_lines(_answer)
