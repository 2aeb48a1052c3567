"""The whole command line, as the installed program calls it: exit codes, what goes to stdout and what to stderr."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


def test_a_text_without_its_option_is_told_where_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = called(capsys, "run", "x.edgec", "Once upon a time")
    assert code == 1 and "(Once upon a time)" in err and "fix: give text with -p, as edgec run NAME.edgec -p" in err
    _, _, other = called(capsys, "plan", "x.edgec", "more")
    assert "extra argument" in other and "-p" not in other.split("fix:")[1]


def test_usage_errors_are_json_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, "run", "x.edgec", "--max-new-tokens", "abc", "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["code"] == "E100"


@pytest.mark.parametrize(("typed", "meant"), [("exprot", "export"), ("bnech", "bench"), ("target", "targets")])
def test_a_mistyped_command_is_suggested(capsys: pytest.CaptureFixture[str], typed: str, meant: str) -> None:
    code, out, err = called(capsys, typed)
    assert (code, out) == (1, "") and f"did you mean edgec {meant}?" in err and "[E100]" in err


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_short_flags_do_what_long_ones_do(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert called(capsys, flag) == (0, f"edgec {edgec.__version__}\n", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_examples_that_can_be_copied(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, _ = called(capsys, name, "-h")
    assert (code, out) == (0, called(capsys, name, "--help")[1])
    shown = out.partition("  Examples:\n")[2].splitlines()
    assert shown and all("edgec" in line for line in shown), "an example was wrapped"
    assert any(line.startswith(f"    edgec {name}") for line in shown)


def test_export_without_a_model_answers_before_torch_is_imported(tmp_path: Path) -> None:
    code = "import sys; from edgec.cli.app import run_cli; assert run_cli(['export', '--target', 'iphone']) == 1; "
    code += "import resource as r; assert 'torch' not in sys.modules; print(r.getrusage(r.RUSAGE_SELF).ru_utime)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "E116" in done.stderr
    # Processor time: 0.3 s on a machine at rest, twice that beside other tests; torch alone takes 2 s.
    assert float(done.stdout) < 0.8


def test_completion_names_the_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_EDGEC_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "edgec ex")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit):
        run_cli([])
    assert capsys.readouterr().out.split() == ["export"]
