"""``edgec init``, ``ls``, ``cache`` and ``help``, as the installed program calls them."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from pathlib import Path

import pytest

from edgec.cli.app import run_cli
from edgec.exporter.cache_folder import KINDS, cache_entries, clean
from edgec.exporter.resolve.project_file import read_project
from edgec.guide import PAGES, error_row, topics


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_cli(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


class Terminal(io.StringIO):
    """Answers typed at a terminal."""

    def isatty(self) -> bool:
        return True


class TestInit:
    def test_options_become_a_project_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        options = ("--model", "owner/name", "--target", "host", "--target", "iphone", "--budget", "kl_mean=0.1")
        code, out, _ = called(capsys, "init", str(tmp_path), *options)
        assert code == 0 and str(tmp_path / "edgec.toml") in out
        project = read_project(tmp_path / "edgec.toml")
        assert (project.model, project.targets, project.recipe) == ("owner/name", ("host", "iphone"), None)
        assert project.budgets == {"kl_mean": 0.1}

    def test_a_terminal_is_asked_for_the_rest(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", Terminal('own\\er/"name"\n\n8bit\n'))
        assert called(capsys, "init", str(tmp_path))[0] == 0
        project = read_project(tmp_path / "edgec.toml")
        assert (project.model, project.targets, project.recipe) == ('own\\er/"name"', ("host",), "8bit")

    @pytest.mark.parametrize(
        ("options", "code"),
        [
            ((), "E116"),
            (("--model", "x", "--target", "iphnoe"), "E163"),
            (("--model", "x", "--budget", "kl"), "E115"),
            (("--model", "x", "--budget", "kl_men=1"), "E115"),
        ],
    )
    def test_what_would_not_read_back_is_refused(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        options: tuple[str, ...],
        code: str,
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        exit_code, _, err = called(capsys, "init", str(tmp_path), *options)
        assert exit_code == 1 and f"[{code}]" in err and not list(tmp_path.iterdir())

    def test_an_existing_file_is_kept(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "edgec.toml"
        file.write_text('model = "mine"\n')
        code, _, err = called(capsys, "init", str(tmp_path), "--model", "other")
        assert code == 1 and "[E120]" in err and "mine" in file.read_text()
        assert called(capsys, "init", str(tmp_path), "--model", "other", "--force", "--target", "host")[0] == 0
        assert "other" in file.read_text()


class TestList:
    def test_bundles_are_listed_with_their_verdict(self, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = called(capsys, "ls", str(tiny_bundle.parent), "--json")
        (listed,) = (row for row in json.loads(out)["bundles"] if row["path"] == str(tiny_bundle))
        assert code == 0 and listed["target"] == "host" and listed["passed"] and listed["size_bytes"] > 1000
        out = called(capsys, "ls", str(tiny_bundle.parent))[1]
        assert tiny_bundle.name in out and "passed" in out

    def test_a_broken_bundle_is_listed_with_its_problem(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "broken.edgec").mkdir()
        code, out, _ = called(capsys, "ls", str(tmp_path))
        assert code == 0 and "broken.edgec" in out and "[E13" in out

    def test_no_bundles_and_no_folder(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "no bundles" in called(capsys, "ls", str(tmp_path))[1]
        code, _, err = called(capsys, "ls", str(tmp_path / "none"))
        assert code == 1 and "[E101]" in err


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one old and one new entry of each kind, 1,000 bytes each."""
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path))
    for kind in KINDS:
        for name in ("old", "new"):
            file = tmp_path / kind / name / "data" if kind in ("stages", "runner") else tmp_path / kind / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(1000))
    for kind in KINDS:
        os.utime(tmp_path / kind / "old", (time.time() - 40 * 86400,) * 2)
    (tmp_path / "packed" / "new.lock").touch()
    return tmp_path


class TestCache:
    def test_the_sizes_are_shown(self, filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = called(capsys, "cache")
        assert code == 0 and all(kind in out for kind in KINDS) and str(filled) in out
        rows = json.loads(called(capsys, "cache", "--json")[1])["entries"]
        assert len(rows) == 2 * len(KINDS) and {row["bytes"] for row in rows} == {1000}

    def test_every_entry_is_listed_the_latest_first(self, filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = called(capsys, "cache", "list", "--kind", "packed", "--kind", "runner")
        rows = [line.split() for line in out.splitlines()[1:-1]]
        assert code == 0 and [row[-1] for row in rows] == ["new", "new", "old", "old"]
        assert {row[0] for row in rows} == {"packed", "runner"} and "40 days ago" in out
        listed = json.loads(called(capsys, "cache", "list", "--kind", "packed", "--json")[1])["entries"]
        assert [Path(row["path"]).name for row in listed] == ["new", "old"]
        assert called(capsys, "cache", "list", "--kind", "stage")[0] == 1

    def test_old_entries_of_one_kind_are_removed(self, filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = called(capsys, "cache", "clean", "--kind", "stages", "--older-than", "30", "--json")
        assert (code, json.loads(out)) == (0, {"freed_bytes": 1000})
        assert [path.name for path in (filled / "stages").iterdir()] == ["new"]
        assert len(cache_entries(filled)) == 2 * len(KINDS) - 1

    def test_everything_is_removed_but_what_is_in_use(self, filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
        import fcntl

        with (filled / "packed" / "new.lock").open() as used:
            fcntl.flock(used, fcntl.LOCK_SH)
            assert called(capsys, "cache", "clean")[0] == 0
        assert [entry.path.name for entry in cache_entries(filled)] == ["new"]
        assert clean(cache_entries(filled)) == 1000

    def test_an_unknown_kind_is_refused(self, filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = called(capsys, "cache", "clean", "--kind", "stage")
        assert code == 1 and "[E115]" in err and len(cache_entries(filled)) == 2 * len(KINDS)

    def test_no_cache_is_an_empty_one(self, tmp_path: Path) -> None:
        assert cache_entries(tmp_path / "none") == []


class TestHelp:
    def test_the_pages_are_those_of_docs(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert set(topics()) == {path.stem for path in PAGES.glob("*.md")} - {"README"}
        out = called(capsys, "help")[1]
        assert all(name in out for name in ("recipes", "targets", "errors", "bundle"))

    @pytest.mark.parametrize("topic", ["recipes", "targets", "errors", "bundle"])
    def test_a_page_is_printed_as_it_is_written(self, capsys: pytest.CaptureFixture[str], topic: str) -> None:
        assert called(capsys, "help", topic)[1] == (PAGES / f"{topic}.md").read_text()

    def test_a_command_without_a_page_has_its_own_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert called(capsys, "help", "run")[1] == called(capsys, "run", "--help")[1]

    def test_a_mistyped_page_is_suggested(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = called(capsys, "help", "recipe")
        assert code == 1 and "[E167]" in err and "recipes" in err

    def test_the_code_of_an_error_has_its_meaning_and_its_fix(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = called(capsys, "help", "e103")
        assert code == 0 and out.startswith("E103  The model is not in the local cache") and "\nfix   Unset" in out
        codes = re.findall(r"^\| (E\d{3}) \|", (PAGES / "errors.md").read_text(), re.MULTILINE)
        rows = dict(zip(codes, map(error_row, codes), strict=True))
        assert len(codes) > 400
        assert [name for name, (what, cure) in rows.items() if not what or not cure or "](" in what + cure] == []

    def test_an_unknown_code_is_told(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = called(capsys, "help", "E999")
        assert code == 1 and "[E950]" in err


@pytest.mark.parametrize("folder", ["/dev/null/below", "/tmp/" + "n" * 300, "~nobody-of-that-name/cache"])
def test_no_command_ends_in_a_bug_where_the_cache_cannot_be_used(
    folder: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEC_CACHE_DIR", folder)
    for words in (["cache"], ["runner", "build"], ["doctor"]):
        code, out, err = called(capsys, *words)
        assert code in (0, 1, 3) and "bug" not in err, (words, err)
        assert code == 0 or "EDGEC_CACHE_DIR" in out + err, words
