"""Processes are run, accounted for, and ended."""

from __future__ import annotations

import sys

import pytest

from benchmarks.harness.processes import ROOT, ProcessFailed, run, run_worker

PYTHON = [sys.executable, "-c"]


def test_the_last_line_is_the_result_and_the_cost_is_counted() -> None:
    code = "import json, sys; print('noise'); sum(range(3_000_000)); print(json.dumps(json.load(sys.stdin)))"
    done = run([*PYTHON, code], stdin={"a": 1})
    assert done.json() == {"a": 1}
    assert 0 < done.cost.cpu_s < 60
    assert done.cost.wall_s > 0


@pytest.mark.long
def test_children_are_part_of_the_cost() -> None:
    child = "import time; t = time.process_time\nwhile t() < 0.5: pass"
    done = run([*PYTHON, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"])
    assert done.cost.cpu_s >= 0.5


def test_a_failure_says_why() -> None:
    with pytest.raises(ProcessFailed, match=r"status 3.*no such luck"):
        run([*PYTHON, "import sys; print('no such luck', file=sys.stderr); sys.exit(3)"])


def test_time_is_up() -> None:
    with pytest.raises(ProcessFailed, match="stopped after 1 s"):
        run([*PYTHON, "import time; time.sleep(60)"], timeout_s=1)


def test_workers_run_from_the_root() -> None:
    assert (ROOT / "pyproject.toml").is_file()
    with pytest.raises(ProcessFailed, match="no_such_module"):
        run_worker("benchmarks.no_such_module", {})
