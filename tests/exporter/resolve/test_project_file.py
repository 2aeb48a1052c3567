"""edgec.toml: what it may say, what wins over it, and how mistakes in it are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.resolve.project_file import Project, complete_options, find_project, read_project, require_model

WHOLE = """
model = "owner/tiny"
targets = ["host", "android-cpu"]
recipe = "int4"
out = "build/tiny.edgec"
emulate = false
[budgets]
size_bytes = 1000000
kl = 0.05
"""


def _file(folder: Path, text: str) -> Path:
    file = folder / "edgec.toml"
    file.write_text(text)
    return file


def _refused(folder: Path, text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_project(_file(folder, text))
    assert caught.value.code == "E115"
    assert caught.value.where.endswith("edgec.toml")
    return caught.value


def test_every_key_is_read(tmp_path: Path) -> None:
    project = read_project(_file(tmp_path, WHOLE))
    assert project.model == "owner/tiny"
    assert project.targets == ("host", "android-cpu")
    assert (project.recipe, project.out, project.emulate) == ("int4", "build/tiny.edgec", False)
    assert project.budgets == {"size_bytes": 1_000_000, "kl": 0.05}


def test_one_target_and_several_are_joined_without_repeats(tmp_path: Path) -> None:
    project = read_project(_file(tmp_path, 'target = "host"\ntargets = ["iphone", "host"]'))
    assert project.targets == ("host", "iphone")


def test_it_is_found_in_the_current_folder_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _file(tmp_path, WHOLE)
    monkeypatch.chdir(tmp_path)
    assert find_project().model == "owner/tiny"
    (tmp_path / "below").mkdir()
    assert find_project(tmp_path / "below") == Project()


def test_a_relative_model_counts_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    assert read_project(_file(tmp_path, 'model = "models/tiny"')).model == str(tmp_path / "models" / "tiny")


def test_the_command_line_wins_key_by_key(tmp_path: Path) -> None:
    project = read_project(_file(tmp_path, WHOLE))
    (merged,) = complete_options(ExportOptions("other", target="iphone", budgets={"kl": 0.1}), project)
    assert (merged.model, merged.target, merged.recipe) == ("other", "iphone", "int4")
    assert merged.budgets == {"size_bytes": 1_000_000, "kl": 0.1}
    for each, target in zip(complete_options(ExportOptions(""), project), project.targets, strict=True):
        assert each == ExportOptions(
            project.model or "",
            target=target,
            recipe=project.recipe,
            out=project.out if len(project.targets) == 1 else None,
            budgets=project.budgets,
            emulate=False,
        )
    (merged,) = complete_options(ExportOptions("other", target="host", emulate=True), project)
    assert merged.emulate is True


@pytest.mark.parametrize(("key", "near"), [("modell", "model"), ("traget", "target"), ("receipe", "recipe")])
def test_an_unknown_key_brings_the_nearest_one(key: str, near: str, tmp_path: Path) -> None:
    error = _refused(tmp_path, f'{key} = "x"')
    assert repr(key) in error.what
    assert repr(near) in error.fix


def test_an_unknown_key_like_no_other_brings_the_list(tmp_path: Path) -> None:
    assert "budgets" in _refused(tmp_path, "zzz = 1").fix


@pytest.mark.parametrize(
    "text",
    [
        "model = 3",
        'model = ""',
        "target = ['host']",
        'targets = "host"',
        "targets = [1]",
        "recipe = true",
        "emulate = 1",
        "out = []",
        "budgets = 3",
        '[budgets]\nkl = "small"',
        "[budgets]\nkl = true",
    ],
)
def test_a_value_of_the_wrong_type(text: str, tmp_path: Path) -> None:
    assert "bad value" in _refused(tmp_path, text).what


@pytest.mark.parametrize("content", [b"model = ", b"\xff\xfe", b'model = "a"\nmodel = "b"'])
def test_a_file_that_is_not_toml(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "edgec.toml").write_bytes(content)
    with pytest.raises(InputError, match="E115"):
        find_project(tmp_path)


def test_without_a_model_anywhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E116"):
        require_model(find_project(tmp_path))
    with pytest.raises(InputError, match="no `model`"):
        require_model(read_project(_file(tmp_path, 'target = "host"')))
    assert require_model(Project(model="m")) == "m"
