"""What the shell offers after Tab."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgec.cli.completions import bundle_names, phone_names, recipe_names, target_names, topic_names
from edgec.devices.targets import all_targets, phones


def test_names_begin_as_what_was_typed() -> None:
    assert "android-cpu" in target_names("andr") and all(name.startswith("andr") for name in target_names("andr"))
    assert {target.name for target in all_targets()} <= set(target_names(""))
    assert set(phones()) <= set(phone_names(""))
    assert "4bit" in recipe_names("4") and not recipe_names("no such")
    assert topic_names("serv") == ["serve"] and "recipes" in topic_names("rec")


def test_paths_lead_to_bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.edgec", "folder/b.edgec", ".hidden.edgec"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "own.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert bundle_names("") == ["a.edgec", "folder/"]
    assert bundle_names("folder/") == ["folder/b.edgec"]
    assert bundle_names(".") == [".hidden.edgec"]
    assert bundle_names(f"{tmp_path}/a") == [f"{tmp_path}/a.edgec"]
    assert bundle_names("absent/") == []
    assert "own.toml" in recipe_names("own")


def test_a_shell_asks_the_command() -> None:
    words = {"COMP_WORDS": "edgec help rec", "COMP_CWORD": "2", "_EDGEC_COMPLETE": "complete_bash"}
    asked = subprocess.run(
        [sys.executable, "-m", "edgec"], env={**os.environ, **words}, capture_output=True, text=True, check=False
    )
    assert asked.stdout.split() == ["recipes", "recurrences"]
