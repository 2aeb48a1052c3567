"""A limit of memory that the kernel does not keep is kept by whoever waits for the answer."""

from __future__ import annotations

import pytest

from edgec.bundle import limited_process
from edgec.bundle.limited_process import LimitedProcess


def test_a_job_that_takes_more_than_it_may_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a Mac; there `psutil` says what a process takes, here a stand-in."""
    asked = list[tuple[int, int]]()

    def exceeds(process: int, most: int) -> bool:
        asked.append((process, most))
        return True

    worker = LimitedProcess("edgec.bundle.chat_template_worker", "that renders chat templates")
    monkeypatch.setattr(limited_process, "exceeds_memory", exceeds)
    worker.start()
    process = worker.process
    assert process is not None
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    asks: dict[str, object] = {
        "template": loop,
        "messages": [],
        "tools": None,
        "answer": True,
        "variables": {},
        "characters": 9,
    }
    job = {**asks, "seconds": 5.0, "memory_bytes": 1 << 30}  # it is looked at while it runs
    assert worker.ask(job) == {"limit": "it needed more than 1,024 MiB of memory"}
    assert asked == [(process.pid, 1 << 30)] and worker.process is None and process.poll() is not None
