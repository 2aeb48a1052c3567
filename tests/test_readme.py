"""README, docs/export.md and docs/commands.md are true: their options exist, and their commands run as they stand."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from edgec.cli.app import COMMANDS, app, run_cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS_PAGE = (ROOT / "docs" / "commands.md").read_text()
PAGES = "\n".join((README, (ROOT / "docs" / "export.md").read_text(), COMMANDS_PAGE))
HELD_OUT = "Once upon a time there was a little girl called Lily. She liked to play outside with her red ball. " * 4
FACTORY = """
import torch

def make():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval(), (torch.ones(2, 8),)
"""
# A random model is rounded worse than the trained one of the pages.
RANDOM = ["--budget", "kl_mean=5", "--budget", "top1_agreement=0"]
QUICK = ("run", "eval", "inspect", "verify", "targets", "plan", "doctor", "ls", "init", "cache", "help")


def blocks(language: str, text: str = PAGES) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(text: str = PAGES) -> Iterator[list[str]]:
    """Every command line of a text, as words: whole bash blocks, and what follows a prompt in consoles."""
    shell = [line for block in blocks("bash", text) for line in block.splitlines()]
    shell += [line[2:] for block in blocks("console", text) for line in block.splitlines() if line.startswith("$ ")]
    yield from (words for line in shell if (words := shlex.split(line, comments=True)))


Words = tuple[str, ...]


def edgec_lines(*names: str, text: str = PAGES) -> list[Words]:
    """The arguments of ``edgec``, for these of its commands."""
    lines = dict.fromkeys(tuple(words[1:]) for words in commands(text) if Path(words[0]).name == "edgec")
    return [words for words in lines if words[0] in (names or COMMANDS)]


def local(lines: list[Words]) -> list[Words]:
    """The command lines that need no network: none names a hub id, or an address on the hub."""
    return [words for words in lines if not any(word.startswith(("Qwen/", "hub:")) for word in words)]


@cache
def options(name: str) -> frozenset[str]:
    group: Any = typer.main.get_command(app)
    declared = group.get_command(None, name).params
    return frozenset(flag for each in declared for flag in (*each.opts, *each.secondary_opts)) | {"--help"}


def command_table(text: str) -> dict[str, list[str]]:
    """The other cells of each row of a table whose first column names commands."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:3] == "| `"]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_the_readme_shows_the_commands_used_most_and_names_the_others() -> None:
    shown = {words[0] for words in edgec_lines(text=README)}
    named = set(re.findall(r"`(?:edgec )?([a-z]+)`", README.partition("## The commands")[2].partition("\n## ")[0]))
    assert len(shown) >= 10 and "(docs/commands.md)" in README
    assert shown | named >= set(COMMANDS)


def test_the_page_of_commands_has_each_one_with_what_help_says_what_it_prints_and_an_example() -> None:
    table = command_table(COMMANDS_PAGE)
    assert {name: cells[0] for name, cells in table.items()} == COMMANDS
    assert all(len(cells) == 2 and cells[1] for cells in table.values())
    assert {words[0] for words in edgec_lines(text=COMMANDS_PAGE)} == set(COMMANDS)


def test_a_command_that_the_page_lacks_is_noticed() -> None:
    assert command_table("| `ls` | List. | rows |\n|---|---|\n| other | x | y |") == {"ls": ["List.", "rows"]}


@pytest.mark.parametrize("words", edgec_lines(), ids=" ".join)
def test_the_options_of_each_command_line_exist(words: Words) -> None:
    given = {word.partition("=")[0] for word in words[1:] if re.fullmatch(r"--?[a-z].*", word)}
    assert given <= options(words[0])


def test_options_named_in_the_text_exist() -> None:
    prose = re.sub(r"^```.*?^```$", "", PAGES, flags=re.MULTILINE | re.DOTALL)
    spans = [
        span for span in re.findall(r"`([^`\n]+)`", prose) if not span.startswith(("optimum-cli", "git", "docker"))
    ]
    named = {flag for span in spans for flag in re.findall(r"(?<!\S)--[a-z][a-z-]*", span)}
    known = {"--debug", "--version", "--install-completion"}.union(*map(options, COMMANDS))
    assert len(named) > 5
    assert named <= known


def test_make_targets_exist() -> None:
    made = {words[1] for words in commands() if words[0] == "make"} | set(re.findall(r"`make ([a-z-]+)`", README))
    assert {"demo", "test"} <= made
    assert made <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.fixture
def workplace(tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where the pages' relative paths lead to a tiny model."""
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "tiny-stories").symlink_to(tiny_folder)
    (tmp_path / "held-out.txt").write_text(HELD_OUT)
    (tmp_path / "book.txt").write_text(HELD_OUT * 10)
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "one.txt").write_text((HELD_OUT + "\n\n") * 100)
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "vision.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello\nGo on\n"))
    return tmp_path


@pytest.mark.parametrize(
    "words", [words for words in local(edgec_lines(*QUICK)) if "--measured" not in words], ids=" ".join
)
def test_the_quick_commands_run(
    words: Words, workplace: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(tiny_bundle, workplace / "tiny-stories-host.edgec")
    assert run_cli(list(words)) == 0, capsys.readouterr().err
    assert len(capsys.readouterr().out) > 20


@pytest.mark.long
def test_the_first_export_runs(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = edgec_lines("export")[0]
    assert run_cli([*words, *RANDOM]) == 0, capsys.readouterr().err
    assert (workplace / "tiny-stories-host.edgec" / "report.html").is_file()
    assert "parity ladder" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [words for words in local(edgec_lines("export"))[1:] if "balanced2" not in words[1]], ids=" ".join
)
def test_the_other_local_exports_run(words: Words, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli([*words, *RANDOM]) == 0, capsys.readouterr().err
    assert len(list(workplace.glob("*.edgec"))) == 1


@pytest.mark.slow
def test_an_adapted_model_is_exported(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (words,) = edgec_lines("adapt")
    assert run_cli([*words, "--steps", "4", "--length", "32"]) == 0, capsys.readouterr().err
    export = next(words for words in edgec_lines("export") if "balanced2" in words[1])
    assert run_cli([*export, *RANDOM]) == 0, capsys.readouterr().err
    assert (workplace / f"{export[1]}-host.edgec" / "manifest.json").is_file()


@pytest.mark.slow
def test_the_iphone_bundle_is_embedded(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export = next(words for words in edgec_lines("export") if "iphone" in words)
    assert run_cli([*export, *RANDOM]) == 0, capsys.readouterr().err
    (words,) = edgec_lines("embed", text=README)
    assert run_cli(list(words)) == 0, capsys.readouterr().err
    assert list(workplace.glob("*/Package.swift"))


@pytest.mark.slow
def test_bench_and_compare_run(workplace: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(tiny_bundle, workplace / "tiny-stories-host.edgec")
    assert run_cli(list(edgec_lines("bench")[0])) == 0, capsys.readouterr().err
    shutil.copy("4bit.jsonl", "float.jsonl")
    assert run_cli(list(edgec_lines("compare")[0])) == 0, capsys.readouterr().err


def test_the_project_file_is_one(workplace: Path) -> None:
    from edgec.exporter.resolve.project_file import read_project

    (workplace / "edgec.toml").write_text(blocks("toml")[0])
    project = read_project(workplace / "edgec.toml")
    assert project.model == str(workplace / "examples" / "tiny-stories")
    assert (project.targets, project.recipe) == (("host",), "4bit")
    assert project.budgets == {"kl_mean": 0.1}


def test_the_python_runs(workplace: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = blocks("python")[0]
    assert '"4bit"' in code
    exec(compile(code.replace('"4bit"', '"float"'), "README.md", "exec"), {})
    assert len(capsys.readouterr().out) > 20


def test_the_streaming_python_runs(workplace: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(tiny_bundle, workplace / "tiny-stories-host.edgec")
    (code,) = (block for block in blocks("python") if "model.stream" in block)
    exec(compile(code, "docs/export.md", "exec"), {})
    assert "finish_reason=" in capsys.readouterr().out
