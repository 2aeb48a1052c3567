"""``edgec split``: parts and back again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgec.bundle.folder import open_bundle
from edgec.cli.app import run_cli
from tests.bundle.bundle_samples import FILES, write_sample


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a bundle, where commands run."""
    write_sample(tmp_path).rename(tmp_path / "a.edgec")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_cli(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_parts_are_written_and_joined(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = open_bundle(Path("a.edgec")).manifest.digest
    code, out, err = called(capsys, "split", "a.edgec")
    assert (code, err) == (0, "") and "a.parts" in out and digest in out
    assert called(capsys, "split", "--join", "a.parts", "--out", "b.edgec", "--digest", digest)[0] == 0
    assert open_bundle(Path("b.edgec")).manifest.digest == digest


def test_json_counts(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "split", "a.edgec", "--out", "x.parts", "--part-mb", "1", "--json")
    facts = json.loads(out)
    assert code == 0 and (facts["parts_folder"], facts["parts"], facts["files"]) == ("x.parts", 1, len(FILES) + 1)
    Path("a.edgec").rename("c.edgec")
    code, out, _ = called(capsys, "split", "--join", "x.parts", "--json")
    assert code == 0 and json.loads(out)["bundle"] == "x.edgec"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("none.edgec",), "E130"),
        (("a.edgec", "--part-mb", "0"), "E688"),
        (("a.edgec", "--part-mb", "101"), "E688"),
        (("a.edgec", "--out", "a.edgec"), "E120"),
        (("a.edgec", "--digest", "0"), "E100"),
        (("--join", "a.edgec"), "E680"),
    ],
)
def test_refusals_exit_with_1(
    place: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: str
) -> None:
    exit_code, out, err = called(capsys, "split", *words)
    assert (exit_code, out) == (1, "") and f"[{code}]" in err and "fix:" in err
    assert [path.name for path in place.iterdir()] == ["a.edgec"]
