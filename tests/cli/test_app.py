"""The whole command line, as the installed program calls it: exit codes, what goes to stdout and what to stderr."""

from __future__ import annotations

import json

import pytest

import edgec
from edgec.cli.app import COMMANDS, run_cli


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_cli(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_version_needs_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(capsys, "--version") == (0, f"edgec {edgec.__version__}\n", "")


def test_without_arguments_the_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys)
    assert (code, err) == (0, "") and all(name in out for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "x.edgec", "--max-new-tokens", "abc"], "--max-new-tokens"),
        (["run"], "bundle"),
        (["run", "x.edgec", "--nonsense"], "--nonsense"),
        (["frob"], "frob"),
    ],
)
def test_usage_errors_name_the_parameter(capsys: pytest.CaptureFixture[str], arguments: list[str], named: str) -> None:
    code, out, err = called(capsys, *arguments)
    assert (code, out) == (1, "")
    assert named.lower() in err.splitlines()[0].lower() and "[E100]" in err and "--help" in err


def test_usage_errors_are_json_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, "run", "x.edgec", "--max-new-tokens", "abc", "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["code"] == "E100"
