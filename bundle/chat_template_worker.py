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
from typing import Any

MEMORY_BYTES = 2 << 30
_MAX_WHY = 300


def main() -> None:
    """Answer each line of stdin until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever else is printed is not an answer
    from transformers.utils.chat_template_utils import render_jinja_template

    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, MEMORY_BYTES)
    for line in sys.stdin.buffer:
        job = json.loads(line)
        _limit(resource.RLIMIT_CPU, math.ceil(time.process_time()) + job["seconds"])
        answers.write(json.dumps(_answer(render_jinja_template, job)) + "\n")
        answers.flush()


def _limit(kind: int, value: int) -> None:
    """Set a soft limit; macOS has all of them but that of address space."""
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


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
