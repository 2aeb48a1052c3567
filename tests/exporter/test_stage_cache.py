"""Finished stages are found again, damaged ones are not, and several processes may share the cache."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.bundle.atomic import typed_disk_full
from edgec.bundle.checked_files import file_sha256
from edgec.errors import InputError
from edgec.exporter import stage_cache
from edgec.exporter.stage_cache import StageCache, stage_key
from edgec.installation import cache_root

KEY = stage_key({"stage": "capture"})
_PIPELINE = """
import sys, time
from pathlib import Path
from edgec.exporter.stage_cache import StageCache, stage_key
cache = StageCache(Path(sys.argv[1]))
def stage(name, blocks):
    def write(folder):
        (folder / "result").write_text(name)
        print("ran", name, flush=True)
        time.sleep(60 if blocks else 0)
    path = cache.put(stage_key({"stage": name}), write)
    assert (path / "result").read_text() == name
for name in ("capture", "rewrite", "lower"):
    stage(name, name == sys.argv[2])
"""
_PUT = """
import sys
from pathlib import Path
from edgec.exporter.stage_cache import StageCache
cache = StageCache(Path(sys.argv[1]), max_bytes=3000)
for round in range(40):
    key = f"{round % 5:064d}"
    path = cache.put(key, lambda folder: (folder / "f").write_bytes(key.encode() * 16))
    assert (path / "f").read_bytes() == key.encode() * 16
    cache.close()
"""


def _writer(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "inner").mkdir()
        (folder / "inner/result").write_text(text)

    return write


def _age(cache: StageCache, key: str, seconds: int) -> None:
    then = time.time() - seconds
    os.utime(cache.root / "stages" / key, (then, then))


def test_what_is_put_is_got_and_the_writer_runs_once(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    assert cache.get(KEY) is None
    path = cache.put(KEY, _writer("x"))
    assert (path / "inner/result").read_text() == "x"
    assert cache.put(KEY, _writer("never run")) == path == StageCache(tmp_path).get(KEY)
    assert (path / "inner/result").read_text() == "x" and cache.size_bytes() == 1


def test_a_key_depends_on_every_input_and_not_on_their_order() -> None:
    assert stage_key({"a": 1, "b": [2]}) == stage_key({"b": [2], "a": 1})
    assert len({stage_key({"a": value}) for value in (1, 1.5, "1", None, [1], {"a": 1})}) == 6
    with pytest.raises(TypeError):
        stage_key({"a": object()})
    with pytest.raises(ValueError, match="JSON"):
        stage_key({"a": float("nan")})


def test_the_cache_folder_is_moved_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEC_CACHE_DIR", "/somewhere/else")
    assert cache_root() == Path("/somewhere/else")
    monkeypatch.delenv("EDGEC_CACHE_DIR")
    assert cache_root() == Path.home() / ".cache/edgec"


def test_a_cache_that_cannot_be_written_names_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(InputError) as refused:
        StageCache().put(KEY, _writer("result"))
    assert refused.value.code == "E121" and "EDGEC_CACHE_DIR" in refused.value.fix
    (tmp_path / "model").touch()
    os.utime(tmp_path / "model", (0, 0))
    monkeypatch.setattr("time.time_ns", lambda: 1 << 62)  # the file is old enough to be remembered
    with pytest.raises(InputError) as refused:
        StageCache().file_fingerprint(tmp_path / "model")
    assert "EDGEC_CACHE_DIR" in refused.value.fix


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "extra", "no list", "garbage list", "other key"])
def test_a_damaged_entry_is_a_miss_and_is_removed(tmp_path: Path, damage: str) -> None:
    cache = StageCache(tmp_path)
    result = cache.put(KEY, _writer("result")) / "inner/result"
    entry = result.parents[2]
    if damage == "other key":
        entry = entry.rename(entry.with_name(stage_key({"stage": "other"})))
    actions: dict[str, Callable[[], object]] = {
        "flip": lambda: result.write_text("resulT"),
        "truncate": lambda: result.write_text("res"),
        "delete": result.unlink,
        "extra": (result.parent / "extra").touch,
        "no list": (entry / "entry.json").unlink,
        "garbage list": lambda: (entry / "entry.json").write_text("[" * 100_000),
        "other key": lambda: None,
    }
    actions[damage]()
    assert cache.get(entry.name) is None and not entry.exists()
    assert (cache.put(entry.name, _writer("again")) / "inner/result").read_text() == "again"


def test_an_error_in_a_stage_leaves_no_entry(tmp_path: Path) -> None:
    def broken(folder: Path) -> None:
        (folder / "half").touch()
        raise FileExistsError("the stage's own error")

    with pytest.raises(FileExistsError, match="own error"):
        StageCache(tmp_path).put(KEY, broken)
    assert os.listdir(tmp_path / "stages") == []


def test_a_full_disk_in_a_stage_is_typed(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError) as caught, typed_disk_full(tmp_path):
        StageCache(tmp_path).put(KEY, full)
    assert caught.value.code == "E122"


def test_the_least_recently_used_go_first_and_held_ones_stay(tmp_path: Path) -> None:
    keys = [stage_key({"n": n}) for n in range(4)]
    writers = StageCache(tmp_path)
    for age, key in enumerate(reversed(keys)):
        writers.put(key, _writer("x" * 100))
        _age(writers, key, seconds=1000 * (4 - age))
    oldest_first = list(reversed(keys))
    with StageCache(tmp_path) as reader:
        assert reader.get(oldest_first[0]) is not None
        _age(reader, oldest_first[0], seconds=9000)
        writers.close()
        assert StageCache(tmp_path, max_bytes=200).prune() == 200
        left = {entry.name for entry in (tmp_path / "stages").iterdir()}
        assert left == {oldest_first[0], oldest_first[3]}
    assert StageCache(tmp_path, max_bytes=0).prune() == 200


def test_the_entry_just_written_survives_a_cap_that_is_too_small(tmp_path: Path) -> None:
    path = StageCache(tmp_path, max_bytes=1).put(KEY, _writer("larger than the cap"))
    assert (path / "inner/result").exists()


@pytest.mark.long
def test_an_export_killed_in_any_stage_resumes_with_the_finished_ones(tmp_path: Path) -> None:
    ran: list[str] = []
    for killed_in in ("rewrite", "lower"):
        command = [sys.executable, "-c", _PIPELINE, str(tmp_path), killed_in]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                ran.append(line.strip())
                if line == f"ran {killed_in}\n":
                    process.send_signal(signal.SIGKILL)
    done = subprocess.run(
        [sys.executable, "-c", _PIPELINE, str(tmp_path), ""], capture_output=True, text=True, check=True
    )
    ran += done.stdout.splitlines()
    assert ran == ["ran capture", "ran rewrite", "ran rewrite", "ran lower", "ran lower"]
    assert len(os.listdir(tmp_path / "stages")) == 3, "nothing half-written may be left"


@pytest.mark.long
def test_processes_that_write_and_prune_at_once_never_see_a_part(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PUT, str(tmp_path)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [writer.communicate()[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0], "\n".join(errors)
    assert not [name for name in os.listdir(tmp_path / "stages") if name.startswith(".")]


def test_an_entry_that_others_write_and_prune_many_times_is_kept_in_the_end(tmp_path: Path) -> None:
    """Each round a rival takes the name while this process writes, and the entry is gone before it can be held."""
    rounds: list[int] = []

    class Unlucky(StageCache):
        def get(self, key: str) -> Path | None:
            StageCache(tmp_path, max_bytes=0).prune()
            return super().get(key)

    def write(folder: Path) -> None:
        rounds.append(len(rounds))
        if len(rounds) <= 10:
            with StageCache(tmp_path) as rival:
                rival.put(KEY, _writer("equal"))
        _writer("equal")(folder)

    assert (Unlucky(tmp_path).put(KEY, write) / "inner/result").exists()
    assert len(rounds) == 11


def test_a_fingerprint_is_remembered_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, file = StageCache(tmp_path / "cache"), tmp_path / "weights"
    file.write_bytes(b"a")
    hashed: list[Path] = []
    real = file_sha256

    def counted(path: Path) -> str:
        hashed.append(path)
        return real(path)

    monkeypatch.setattr(stage_cache, "file_sha256", counted)
    assert cache.file_fingerprint(file) == cache.file_fingerprint(file) == real(file)
    assert len(hashed) == 2, "a file this fresh may still change within one tick of its clock"
    monkeypatch.setattr(stage_cache, "_SETTLED_NS", -1)
    assert cache.file_fingerprint(file) == cache.file_fingerprint(file)
    assert len(hashed) == 3
    file.write_bytes(b"b")
    assert cache.file_fingerprint(file) == real(file)
    os.utime(file, ns=(1, 1))
    assert cache.file_fingerprint(file) == real(file) and len(hashed) == 5


def test_a_folder_that_is_no_entry_is_never_pruned(tmp_path: Path) -> None:
    cache = StageCache(tmp_path, max_bytes=0)
    for name in ("mine", "a" * 64):
        (tmp_path / "stages" / name).mkdir(parents=True)
        (tmp_path / "stages" / name / "thesis.txt").write_text("ten years of work")

    def write(folder: Path) -> None:
        (folder / "x").write_bytes(b"x")

    cache.put(stage_key({"n": 1}), write)
    cache.close()
    StageCache(tmp_path, max_bytes=0).prune()
    assert {path.name for path in (tmp_path / "stages").iterdir()} >= {"mine", "a" * 64}
