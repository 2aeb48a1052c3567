"""torch's threads sleep while they wait, and are no more than a control group gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgec.errors import InputError
from edgec.processor_share import THREADS, WAIT, available_cores, quota_cores, stay_on, take_share


@pytest.mark.parametrize(("own", "wanted"), [({}, "passive"), ({WAIT: "active"}, "active")])
def test_it_is_set_by_the_import_unless_the_user_did(own: dict[str, str], wanted: str) -> None:
    left = {name: value for name, value in os.environ.items() if name != WAIT}
    code = f"import edgec, os; print(os.environ[{WAIT!r}])"
    done = subprocess.run([sys.executable, "-c", code], env=left | own, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == wanted


def group(tmp_path: Path, **limits: str) -> tuple[Path, Path]:
    """Mounted groups: one named ``a`` with another, ``b``, inside, which holds the process."""
    own, groups = tmp_path / "own", tmp_path / "groups"
    own.write_text("0::/a/b\n")
    folders = {"root": groups, "a": groups / "a", "b": groups / "a" / "b"}
    for name, folder in folders.items():
        folder.mkdir()
        if name in limits:
            (folder / "cpu.max").write_text(limits[name])
    return groups, own


def test_the_narrowest_limit_counts(tmp_path: Path) -> None:
    assert quota_cores(*group(tmp_path, a="150000 100000\n", b="max 100000\n")) == 1.5


@pytest.mark.parametrize("text", ["max 100000", "", "1", "many 100000", "100000 0"])
def test_no_limit_and_no_sense_are_none(tmp_path: Path, text: str) -> None:
    assert quota_cores(*group(tmp_path, b=text)) is None


def test_without_groups_there_is_none(tmp_path: Path) -> None:
    assert quota_cores(tmp_path, tmp_path / "missing") is None


@pytest.mark.parametrize(("quota", "threads"), [(0.5, "1"), (None, None)])
def test_threads_follow_the_quota(monkeypatch: pytest.MonkeyPatch, quota: float | None, threads: str | None) -> None:
    monkeypatch.setattr("edgec.processor_share.quota_cores", lambda: quota)
    variables: dict[str, str] = {}
    take_share(variables)
    assert variables.get(THREADS) == threads
    asked = {THREADS: "7"}
    take_share(asked)
    assert asked[THREADS] == "7"


def test_there_are_cores() -> None:
    assert 1 <= available_cores() <= (os.cpu_count() or 1)


def test_cores_are_chosen_on_linux_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = list[tuple[int, list[int]]]()
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: chosen.append((process, list(cores))))
    stay_on((0,))
    assert chosen == [(0, [0])]
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(InputError) as refused:
        stay_on((0,))
    assert refused.value.code == "E156" and "macOS" in refused.value.why
    assert available_cores() == os.cpu_count()
