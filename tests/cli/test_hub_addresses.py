"""Every command that takes a bundle takes an address on the hub in its place; one that is none is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.cli.app import run_cli

COMMANDS = {
    "run": ("-p", "Once"),
    "serve": ("--port", "0"),
    "bench": (),
    "compare": ("other.edgec",),
    "eval": ("--text", "text.txt"),
    "embed": ("--platform", "ios"),
    "inspect": (),
    "verify": (),
    "split": (),
    "push": ("max/tiny",),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_address_is_read_as_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("Once upon a time there was a red ball.")
    assert run_cli([name, "hub:max/../tiny", *COMMANDS[name]]) == 1
    told = capsys.readouterr().err
    assert "[E873]" in told and "hub:OWNER/NAME" in told


def test_a_draft_model_may_be_on_the_hub(tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run", str(tiny_bundle), "-p", "Once", "--speculate", "hub:max/../tiny"]) == 1
    assert "[E873]" in capsys.readouterr().err
