"""The process that renders chat templates for `edgec.bundle.chat_template`: a line of JSON in, one out.

A template is somebody's program. It may loop forever, or double a text until memory ends, inside a single operation
that Python cannot interrupt; so the kernel sets the limits, and what ends by them is this process alone.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

MEMORY_BYTES = 2 << 30
MARKS = "marks"
DATE_BEGIN, DATE_END = "\ue013", "\ue014"
"""Around the format of a date that a template writes, where it is to be written later."""
_MAX_WHY = 300


def main() -> None:
    """Answer each line of stdin until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever else is printed is not an answer
    from transformers.utils import chat_template_utils

    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, MEMORY_BYTES)
    for line in sys.stdin.buffer:
        job = json.loads(line)
        _limit(resource.RLIMIT_CPU, math.ceil(time.process_time()) + job["seconds"])
        # Its ``strftime_now`` asks this name for the time; a function among the variables would become a text.
        chat_template_utils.datetime = _Clock(job.get("clock"))
        answers.write(json.dumps(_answer(chat_template_utils.render_jinja_template, job)) + "\n")
        answers.flush()


def _limit(kind: int, value: int) -> None:
    """Set a soft limit; macOS has all of them but that of address space."""
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


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


def _answer(render: Any, job: Mapping[str, Any]) -> dict[str, str]:
    try:
        texts, _ = render(
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
        return {"limit": f"it needed more than {MEMORY_BYTES >> 20:,} MiB of memory"}
    except RecursionError:
        return {"limit": "it calls itself without end"}
    except Exception as error:  # a template is somebody's program, and raises what it likes
        return {"refused": f"{type(error).__name__}: {error}"[:_MAX_WHY]}


if __name__ == "__main__":
    main()
