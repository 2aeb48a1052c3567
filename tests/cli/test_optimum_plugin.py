from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from argparse import ArgumentParser
from pathlib import Path

import pytest

pytest.importorskip("optimum.commands.optimum_cli")

from edgec.cli.optimum_plugin import arguments, declare, export_options

ROOT = Path(__file__).parents[2]


def _optimum(*line: str) -> subprocess.CompletedProcess[str]:
    """optimum-cli in a process of its own, run by this interpreter."""
    script = "import sys; from optimum.commands.optimum_cli import main; sys.argv[0] = 'optimum-cli'; main()"
    return subprocess.run([sys.executable, "-c", script, *line], capture_output=True, text=True, check=False)


def _translated(*line: str) -> list[str]:
    parser, options = ArgumentParser(), export_options()
    declare(parser, options)
    return arguments(parser.parse_args(line), options)


def test_optimum_cli_lists_the_command() -> None:
    done = _optimum("export", "--help")
    assert done.returncode == 0
    assert "verified bundle for phones" in done.stdout


def test_its_help_names_every_option_of_edgec_export() -> None:
    done = _optimum("export", "edgec", "--help")
    assert done.returncode == 0
    missing = [flag for option in export_options() for flag in option.opts if flag not in done.stdout]
    assert not missing
    assert "--target" in done.stdout
    assert "--task" in done.stdout


@pytest.mark.long
def test_a_missing_model_is_edgecs_own_error(tmp_path: Path) -> None:
    done = _optimum("export", "edgec", "--model", str(tmp_path / "nowhere"), str(tmp_path / "out.edgec"))
    assert done.returncode == 1
    assert "[E101]" in done.stderr
    assert "Traceback" not in done.stderr


def test_arguments_become_the_same_command_line() -> None:
    line = _translated(
        "--model", "a/b", "x.edgec", "--task", "fill-mask", "--force", "--budget", "a=1", "--budget", "b=2"
    )
    assert line[0] == "export"
    assert line[-2:] == ["--", "a/b"]
    assert set(line[1:-2]) == {"--out=x.edgec", "--task=fill-mask", "--force", "--budget=a=1", "--budget=b=2"}


@pytest.mark.parametrize("side", ["--emulate", "--no-emulate"])
def test_an_option_of_two_sides_keeps_the_one_that_was_given(side: str) -> None:
    assert _translated("-m", "model", side) == ["export", side, "--", "model"]


def test_nothing_given_is_nothing_passed_on() -> None:
    assert _translated("-m", "model") == ["export", "--", "model"]


@pytest.mark.slow
def test_the_wheel_carries_the_registration_and_no_init_file(tmp_path: Path) -> None:
    tree = tmp_path / "tree"  # a copy: setuptools leaves a build folder behind that would feed the next wheel
    unwanted = shutil.ignore_patterns(".*", "build", "*.egg-info", "tests", "examples", "benchmarks")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=unwanted)
    line = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(tmp_path), "."]
    subprocess.run(line, cwd=tree, check=True, capture_output=True)
    names = zipfile.ZipFile(next(tmp_path.glob("edgec-*.whl"))).namelist()
    ours = [name for name in names if name.startswith("optimum/")]
    assert ours == ["optimum/commands/register/register_edgec.py"]
    assert "edgec/cli/optimum_plugin.py" in names
