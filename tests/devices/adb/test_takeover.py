"""Taking over what an earlier run left on the phone: its runner is ended, its files are reused or removed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from edgec.devices.adb import workspace
from edgec.devices.adb.link import AdbLink, ShellOutput
from edgec.errors import EdgecError
from edgec.runtime_py.bench.bench import bench
from tests.devices.adb.conftest import Plug
from tests.devices.adb.fault_cases import SHORT, be_impatient
from tests.devices.phone.phone import LoopbackPhone

KEPT = "edgec-kept-0123abcd"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_impatient(monkeypatch)


def left(phone: LoopbackPhone) -> Path:
    folder = phone.storage / KEPT
    folder.mkdir()
    return folder


@contextmanager
def sleeper(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose working directory is a folder."""
    process = subprocess.Popen(["sleep", "300"], cwd=folder)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.long
@pytest.mark.parametrize("others", [("edgec-kept-89abcdef",), pytest.param((), marks=pytest.mark.slow)])
def test_an_orphaned_runner_is_ended(plug: Plug, phone_bundle: Path, others: tuple[str, ...]) -> None:
    phone = plug()
    for name in others:
        (phone.storage / name).mkdir()
    folder = left(phone)
    with sleeper(folder) as orphan:
        (folder / "pid").write_text(f"{orphan.pid}\n")
        bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
        assert orphan.poll() == -9
    assert phone.left_behind() == []


@pytest.mark.long
def test_a_process_that_got_the_orphan_s_number_lives(plug: Plug, phone_bundle: Path, tmp_path: Path) -> None:
    phone = plug()
    folder = left(phone)
    with sleeper(tmp_path) as other:
        (folder / "pid").write_text(f"{other.pid}\n")
        bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
        assert other.poll() is None


@pytest.mark.long
def test_the_number_goes_with_the_runner(plug: Plug, phone_bundle: Path) -> None:
    phone = plug()
    seen: list[list[str]] = []

    def look(text: str) -> None:
        if text == "memory":
            seen.append(sorted(path.name for path in phone.storage.glob("*/*")))

    bench(phone_bundle, f"adb:{phone.serial}", **SHORT, say=look)
    assert "results.jsonl" in seen[0] and "pid" not in seen[0]


def needed_kib(bundle: Path) -> int:
    """The KiB that the pushed files, a chunk and the small files of a run need."""
    return (sum(path.stat().st_size for path in bundle.iterdir()) + 300_000 + workspace.CHUNK) // 1024 + 60


@pytest.mark.long
def test_another_bundle_makes_room(plug: Plug, phone_bundle: Path) -> None:
    phone = plug()
    folder = left(phone)
    (folder / "other.pte").write_bytes(bytes(1_000_000))
    (folder / "model.pte").write_bytes(bytes(1_000_000))
    (phone.says / "capacity").write_text(str(needed_kib(phone_bundle)))
    bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
    assert phone.left_behind() == []


@pytest.mark.long
def test_what_is_there_in_part_needs_no_more_room(plug: Plug, phone_bundle: Path) -> None:
    phone = plug()
    folder, whole = left(phone), (phone_bundle / "model.pte").read_bytes()
    (folder / "model.pte.partial").write_bytes(whole[:-200_000])
    (phone.says / "capacity").write_text(str(needed_kib(phone_bundle)))
    bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
    assert phone.faults.pushed < len(whole)


@pytest.mark.long
def test_a_file_that_cannot_be_put_in_place(plug: Plug, phone_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone, whole = plug(), AdbLink.shell

    def unmovable(link: AdbLink, script: str, *others: object) -> ShellOutput:
        refused = script.replace("mv model.pte.partial", "echo 'mv: Operation not permitted' >&2; false")
        return whole(link, refused, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(AdbLink, "shell", unmovable)
    with pytest.raises(EdgecError, match="E547") as caught:
        bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
    assert "not permitted" in caught.value.why and phone.left_behind() == []


_WORK = """
import sys, time
from edgec.devices.adb.link import AdbLink
from edgec.devices.adb.workspace import Workspace
link = AdbLink(sys.argv[1])
link.ready()
Workspace(link, lambda text: None).make()
print("ready", flush=True)
time.sleep(300)
"""


@pytest.mark.long
def test_a_step_of_the_clock_takes_no_living_run_s_folder(
    plug: Plug, phone_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone, real = plug(), psutil.Process.create_time
    with subprocess.Popen([sys.executable, "-c", _WORK, phone.serial], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == b"ready\n"
            work = phone.left_behind()
            monkeypatch.setattr(psutil.Process, "create_time", lambda process: real(process) + 3600)
            bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
            assert phone.left_behind() == work
        finally:
            other.kill()
    bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
    assert phone.left_behind() == []


@pytest.mark.long
def test_folders_of_older_versions_are_taken_once_no_process_has_the_number(plug: Plug, phone_bundle: Path) -> None:
    phone, host = plug(), workspace._host()
    living = f"edgec-{host}-{os.getpid()}-1700000000-0123abcd"
    for name in (living, f"edgec-{host}-999999999-1700000000-0123abcd"):
        (phone.storage / name).mkdir()
    bench(phone_bundle, f"adb:{phone.serial}", **SHORT)
    assert phone.left_behind() == [living]
