"""Files and folders appear whole or not at all, also when the process is killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from edgec.bundle import atomic
from edgec.bundle.atomic import (
    NameTaken,
    clean_siblings,
    new_folder,
    typed_disk_full,
    typed_os_errors,
    write_file,
)
from edgec.errors import InputError

_FILL_AND_WAIT = """
import sys, time
from pathlib import Path
from edgec.bundle.atomic import new_folder
with new_folder(Path(sys.argv[1]), replace=True) as folder:
    (folder / "half").write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def _fill(path: Path, text: str, replace: bool = False) -> None:
    with new_folder(path, replace) as folder:
        (folder / "file").write_text(text)


def test_a_folder_appears_with_its_content(tmp_path: Path) -> None:
    with new_folder(tmp_path / "a") as folder:
        (folder / "file").write_text("x")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a/file").read_text() == "x" and os.listdir(tmp_path) == ["a"]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="halfway"), new_folder(tmp_path / "a") as folder:
        (folder / "file").write_text("x")
        raise RuntimeError("halfway")
    assert os.listdir(tmp_path) == []


def test_an_existing_folder_is_kept_unless_replaced(tmp_path: Path) -> None:
    _fill(tmp_path / "a", "old")
    with pytest.raises(NameTaken):
        _fill(tmp_path / "a", "new")
    assert (tmp_path / "a/file").read_text() == "old" and os.listdir(tmp_path) == ["a"]
    _fill(tmp_path / "a", "new", replace=True)
    assert (tmp_path / "a/file").read_text() == "new" and os.listdir(tmp_path) == ["a"]


def test_replacing_works_without_an_exchanging_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "_exchange", lambda first, second: False)
    _fill(tmp_path / "a", "old")
    _fill(tmp_path / "a", "new", replace=True)
    assert (tmp_path / "a/file").read_text() == "new" and os.listdir(tmp_path) == ["a"]


def test_a_mac_exchanges_by_a_call_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`renamex_np(first, second, RENAME_SWAP)`, stood in by two renames."""
    called = list[str]()

    def renamex_np(first: bytes, second: bytes, flags: int) -> int:
        assert flags == 2
        os.rename(first, first + b".aside")
        os.rename(second, first)
        os.rename(first + b".aside", second)
        return 0

    def named(name: str) -> Any:
        called.append(name)
        return renamex_np

    _fill(tmp_path / "a", "old")
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(atomic, "_of_c_library", named)
    _fill(tmp_path / "a", "new", replace=True)
    assert (tmp_path / "a/file").read_text() == "new" and os.listdir(tmp_path) == ["a"] and called == ["renamex_np"]


def test_a_killed_writer_leaves_the_old_folder_and_its_leftovers_go_with_the_next(tmp_path: Path) -> None:
    path = tmp_path / "odd [name]*~edgec"
    _fill(path, "old")
    with subprocess.Popen([sys.executable, "-c", _FILL_AND_WAIT, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        clean_siblings(path)
        assert len(os.listdir(tmp_path)) == 2, "a living writer's folder must stay"
        writer.send_signal(signal.SIGKILL)
    assert (path / "file").read_text() == "old" and len(os.listdir(tmp_path)) == 2
    _fill(path, "new", replace=True)
    assert (path / "file").read_text() == "new" and os.listdir(tmp_path) == [path.name]


def test_a_swap_cut_in_half_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(tmp_path / "a", "old")
    monkeypatch.setattr(atomic, "own_mark", lambda: ("999999999", "t1"))
    os.rename(tmp_path / "a", atomic._sibling(tmp_path / "a", "old"))
    clean_siblings(tmp_path / "a")
    assert (tmp_path / "a/file").read_text() == "old" and os.listdir(tmp_path) == ["a"]


def test_names_that_only_look_like_siblings_stay(tmp_path: Path) -> None:
    names = [".a~edgec~", ".a~edgec~new~h~1~2", ".a~edgec~new~other-host~1~2~ab", ".a~other"]
    for name in names:
        (tmp_path / name).touch()
    clean_siblings(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == sorted(names)


def test_a_file_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "f", b"old")
    write_file(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"

    def full(*names: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError) as caught:
        write_file(tmp_path / "f", b"newer")
    assert caught.value.code == "E122"
    assert (tmp_path / "f").read_bytes() == b"new" and os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "E122"), (errno.EDQUOT, "E122"), (errno.EACCES, "E121"), (errno.EROFS, "E121")]
)
def test_what_the_file_system_refuses_gets_a_code(tmp_path: Path, number: int, code: str) -> None:
    with pytest.raises(InputError) as caught, typed_os_errors(tmp_path):
        raise OSError(number, os.strerror(number))
    assert caught.value.code == code and os.strerror(number) in caught.value.why


@pytest.mark.parametrize(
    ("text", "code"), [("No space left on device (os error 28)", "E122"), ("x (os error 13)", "E121")]
)
def test_errors_of_safetensors_are_the_systems(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises(InputError) as refused, typed_os_errors(tmp_path):
        raise SafetensorError(f"Error while serializing: I/O error: {text}")
    assert refused.value.code == code
    with pytest.raises(SafetensorError), typed_os_errors(tmp_path):
        raise SafetensorError("Error while deserializing header: invalid header")


def test_only_a_full_disk_is_renamed_where_other_errors_have_their_own_meaning(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), typed_disk_full(tmp_path):
        raise PermissionError(errno.EACCES, "not yours")
