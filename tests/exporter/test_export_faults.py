"""Whatever breaks an export from outside: the next one gives the same bytes, and nothing half-written is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.bundle.canonical import identity_digest
from edgec.bundle.folder import open_bundle
from edgec.runtime_py.model import load
from tests.conftest import with_engine
from tests.small_disk import mounted

pytestmark = pytest.mark.slow
MOMENTS = 15
EXPORT = """
import sys
import edgec
from edgec.errors import EdgecError
events = []
def listener(event):
    if not events:
        print("started", flush=True)
    events.append(event.stage)
try:
    force = sys.argv[3] == "force"
    edgec.export(sys.argv[1], recipe="8bit", context=64, out=sys.argv[2], force=force, progress=listener)
except EdgecError as error:
    print(error.code, flush=True)
    sys.exit(error.exit_code)
"""


def started(folder: Path, out: Path, cache: Path, force: bool = False) -> subprocess.Popen[str]:
    """An export in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", EXPORT, str(folder), str(out), "force" if force else ""]
    environment = {**os.environ, "EDGEC_CACHE_DIR": str(cache)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status, and the code of its error, if any."""
    said, _ = process.communicate(timeout=600)
    return process.returncode, said.removeprefix("started\n").strip()


def contents(bundle: Path) -> Mapping[str, bytes | str]:
    """What two exports of the same input share: the artifact's bytes, and the identity of the rest."""
    checked = open_bundle(bundle)
    manifest = checked.manifest.model_copy(update={"name": ""})
    return {"artifact": checked.artifact_path.read_bytes(), "identity": identity_digest(manifest)}


@pytest.fixture(scope="module")
def whole(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, bytes | str], float, Path]:
    """An export that nothing disturbs: its contents, its seconds, and the stage cache it leaves."""
    folder = tmp_path_factory.mktemp("whole")
    cache = with_engine(folder / "cache")
    process = started(tiny_folder, folder / "x.edgec", cache)
    assert process.stdout is not None and process.stdout.readline() == "started\n"
    begun = time.monotonic()
    assert ended(process) == (0, "")
    return contents(folder / "x.edgec"), time.monotonic() - begun, cache


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_kill_at_any_moment_costs_nothing_but_time(
    moment: int, whole: tuple[Mapping[str, bytes | str], float, Path], tiny_folder: Path, tmp_path: Path
) -> None:
    wanted, seconds, _ = whole
    out, cache = tmp_path / "out" / "x.edgec", with_engine(tmp_path / "cache")
    out.parent.mkdir()
    process = started(tiny_folder, out, cache)
    assert process.stdout is not None and process.stdout.readline() == "started\n"
    time.sleep(seconds * (moment + 0.5) / MOMENTS)
    process.kill()
    assert ended(process)[0] in (-signal.SIGKILL, 0)
    shutil.rmtree(out, ignore_errors=True)  # where the export was quicker than the one that was timed
    assert ended(started(tiny_folder, out, cache)) == (0, "")
    assert contents(out) == wanted
    assert [path.name for path in out.parent.iterdir()] == ["x.edgec"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    with mounted(tmp_path / "disk", "256k") as disk:
        yield disk


def test_a_full_disk_leaves_nothing(small_disk: Path, tiny_folder: Path, tmp_path: Path) -> None:
    cache = with_engine(tmp_path / "cache")
    (small_disk / "other").write_bytes(bytes(200 << 10))
    assert ended(started(tiny_folder, small_disk / "x.edgec", cache)) == (1, "E122")
    assert [path.name for path in small_disk.iterdir()] == ["other"]


def test_a_full_disk_under_the_stage_cache_is_named(small_disk: Path, tiny_folder: Path, tmp_path: Path) -> None:
    (small_disk / "other").write_bytes(bytes(200 << 10))
    assert ended(started(tiny_folder, tmp_path / "x.edgec", with_engine(small_disk / "cache"))) == (1, "E122")
    assert not (tmp_path / "x.edgec").exists()


def test_a_read_only_stage_cache_is_named(
    whole: tuple[Mapping[str, bytes | str], float, Path], small_disk: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    cache = with_engine(small_disk / "cache")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    status, code = ended(started(tiny_folder, tmp_path / "x.edgec", cache))
    assert (status, code) == (1, "E121")
    assert not (tmp_path / "x.edgec").exists()


def test_a_flipped_byte_anywhere_in_the_stage_cache_is_noticed(
    whole: tuple[Mapping[str, bytes | str], float, Path], tiny_folder: Path, tmp_path: Path
) -> None:
    wanted, _, cache = whole
    copied = tmp_path / "cache"
    shutil.copytree(cache, copied, symlinks=True)
    files = [
        path for path in copied.rglob("*") if path.is_file() and not path.is_symlink() and "runner" not in path.parts
    ]
    assert len(files) >= 4
    for file in files:
        raw = bytearray(file.read_bytes())
        if raw:
            raw[len(raw) // 2] ^= 0x10
            file.write_bytes(raw)
    assert ended(started(tiny_folder, tmp_path / "x.edgec", copied)) == (0, "")
    assert contents(tmp_path / "x.edgec") == wanted


@pytest.mark.parametrize("force", [False, True])
def test_two_exports_into_one_output(
    force: bool, whole: tuple[Mapping[str, bytes | str], float, Path], tiny_folder: Path, tmp_path: Path
) -> None:
    cache, out = with_engine(tmp_path / "cache"), tmp_path / "out" / "x.edgec"
    out.parent.mkdir()
    both = [started(tiny_folder, out, cache, force) for _ in range(2)]
    outcomes = sorted(ended(process) for process in both)
    assert outcomes == ([(0, ""), (0, "")] if force else [(0, ""), (1, "E120")])
    assert contents(out) == whole[0]
    assert [path.name for path in out.parent.iterdir()] == ["x.edgec"]


def test_two_threads_on_one_model_say_what_each_would_alone(tiny_bundle: Path) -> None:
    prompts = [[5, 6, 7, 8], [90, 80, 70, 60, 50]]
    options: dict[str, Any] = {"max_new_tokens": 24, "temperature": 0.0, "stop": ()}
    alone = [load(tiny_bundle).generate(prompt, **options).tokens for prompt in prompts]
    model = load(tiny_bundle)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            together = pool.map(lambda prompt: model.generate(prompt, **options).tokens, prompts)
            assert list(together) == alone
    assert edgec.load(tiny_bundle).generate(prompts[0], **options).tokens == alone[0]
