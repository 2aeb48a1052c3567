"""Work of a living process stays whatever the clock says, and goes with its process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from edgec.bundle import owner
from edgec.bundle.atomic import clean_leftovers, clean_siblings
from edgec.bundle.owner import OWNER, held, is_held, own_mark, owned_by_running, process_start

HOUR_S = 3600
DEAD = 999_999_999
_FOLDER = """
import sys, time
from pathlib import Path
from edgec.bundle.atomic import new_folder
with new_folder(Path(sys.argv[1]), replace=True) as folder:
    (folder / "half").write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""
_FILE = """
import os, sys, time
from pathlib import Path
from edgec.bundle.atomic import write_file
def slow(descriptor):
    print("ready", flush=True)
    time.sleep(60)
os.fsync = slow
write_file(Path(sys.argv[1]), b"half")
"""
Step = Callable[[], None]


@contextmanager
def writer(script: str, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process in the middle of writing ``path``."""
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Step:
    """Set the clock an hour ahead: the boot time, and with it psutil's start of every process, moves along."""
    real, boot = psutil.Process.create_time, psutil.boot_time

    def stepped() -> None:
        monkeypatch.setattr(psutil.Process, "create_time", lambda process: real(process) + HOUR_S)
        monkeypatch.setattr(psutil, "boot_time", lambda: boot() + HOUR_S)

    return stepped


@pytest.mark.parametrize("script", [_FOLDER, _FILE])
def test_a_step_of_the_clock_removes_no_living_process_s_work(script: str, tmp_path: Path, step: Step) -> None:
    path = tmp_path / "result"
    with writer(script, path) as process:
        (work,) = os.listdir(tmp_path)
        step()
        clean_siblings(path)
        clean_leftovers(tmp_path)
        assert os.listdir(tmp_path) == [work]
        process.send_signal(signal.SIGKILL)
    clean_siblings(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("script", [_FOLDER, _FILE])
def test_work_of_another_container_with_the_same_name_stays(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "process_start", lambda process: None)
    with writer(script, tmp_path / "result"):
        (work,) = os.listdir(tmp_path)
        clean_leftovers(tmp_path)
        assert os.listdir(tmp_path) == [work]
    clean_leftovers(tmp_path)
    assert os.listdir(tmp_path) == []


def older_sibling(folder: Path, process: int) -> Path:
    """The path of a leftover from a version that recorded seconds since 1970."""
    return folder / f".a~edgec~new~{socket.gethostname()}~{process}~1700000000~0123abcd"


def test_names_of_older_versions_are_cleaned_once_no_process_has_the_number(tmp_path: Path) -> None:
    older_sibling(tmp_path, DEAD).mkdir()
    older_sibling(tmp_path, os.getpid()).mkdir()
    clean_siblings(tmp_path / "a")
    assert os.listdir(tmp_path) == [older_sibling(tmp_path, os.getpid()).name]


def test_a_process_that_got_the_number_of_a_dead_one_is_another() -> None:
    mine, start = own_mark()
    assert (int(mine), start) == (os.getpid(), process_start(os.getpid()))
    assert owned_by_running(marked(mine, start))
    assert not owned_by_running(marked(mine, "t1")) and not owned_by_running(marked(str(DEAD), start))


def marked(process: str, started: str) -> re.Match[str]:
    match = re.fullmatch(OWNER, f"{process}~{started}")
    assert match is not None
    return match


def test_a_process_that_only_waits_to_be_reaped_has_ended() -> None:
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.read() == b""
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process_start(process.pid) is None


def test_what_ps_tells_is_the_same_at_every_call_and_none_of_a_dead_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    first = process_start(os.getpid())
    assert first is not None and first.startswith("n") and first == process_start(os.getpid())
    assert process_start(DEAD) is None
    monkeypatch.setenv("PATH", "")
    assert owned_by_running(marked(str(os.getpid()), first))


def test_a_lock_ends_with_its_block(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file"):
        with held(path), held(path):
            assert is_held(path)
        assert not is_held(path)
    assert not is_held(tmp_path / "nothing")
