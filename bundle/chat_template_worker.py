"""The process that renders chat templates for `edgec.bundle.chat_template`; a template is somebody's program."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from edgec.bundle.limited_worker import JobAnswer, answer_lines

_MAX_WHY = 300


def _answer() -> JobAnswer:
    from transformers.utils.chat_template_utils import render_jinja_template

    return partial(_rendered, render_jinja_template)


def _rendered(render: Any, job: Mapping[str, Any]) -> dict[str, str]:
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
        raise
    except RecursionError:
        return {"limit": "it calls itself without end"}
    except Exception as error:  # a template is somebody's program, and raises what it likes
        return {"refused": f"{type(error).__name__}: {error}"[:_MAX_WHY]}


if __name__ == "__main__":
    answer_lines(_answer)
