"""Which SDK is accepted: ExecuTorch itself is asked, in a process that may die of the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.backends.qnn.legality import check_chip
from edgec.backends.qnn_delegate.sdk import LIBRARY, ROOT, Versions, environment, fitting_sdk, last_object
from edgec.devices.targets import Target, load_target
from edgec.errors import EdgecError
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import for_backend
from edgec.exporter.resolve.target_choice import in_format
from tests.backends.qnn_delegate.stand_ins import plug_in, sdk_of_plug_in

PLUG_IN = pytest.mark.skipif(plug_in() is None, reason="needs onnxruntime-qnn")


def delegated() -> Target:
    return in_format(load_target("snapdragon-8-elite"), "pte")


def refused(monkeypatch: pytest.MonkeyPatch, root: Path | str | None) -> EdgecError:
    if root is None:
        monkeypatch.delenv(ROOT, raising=False)
    else:
        monkeypatch.setenv(ROOT, str(root))
    with pytest.raises(EdgecError) as error:
        fitting_sdk()
    assert error.value.exit_code == 3
    return error.value


@pytest.mark.parametrize(("root", "word"), [(None, "not set"), ("", "not set"), ("/nowhere", "libQnnHtp.so")])
def test_without_an_sdk_nothing_is_fetched(root: str | None, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused(monkeypatch, root)
    assert error.code == "E584" and word in error.why and "--format pte" in error.fix


def test_a_library_that_cannot_be_loaded_ends_its_own_process_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / LIBRARY).parent.mkdir(parents=True)
    (tmp_path / LIBRARY).write_bytes(b"no library")
    error = refused(monkeypatch, tmp_path)
    assert error.code == "E584" and "exit status" in error.why


@PLUG_IN
def test_the_version_is_read_from_the_library_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-in's library is real, and newer than ExecuTorch's delegate."""
    root, needed = sdk_of_plug_in(tmp_path / "sdk")
    monkeypatch.setenv("LD_LIBRARY_PATH", needed)
    error = refused(monkeypatch, root)
    assert error.code == "E585" and "it is v2." in error.why and "made for 2.37." in error.why


def test_an_executorch_without_qnn_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LIBRARY).parent.mkdir(parents=True)
    (tmp_path / LIBRARY).write_bytes(b"never loaded")
    (tmp_path / "path/executorch").mkdir(parents=True)
    (tmp_path / "path/executorch/__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    assert refused(monkeypatch, tmp_path).code == "E586"


@pytest.mark.parametrize(
    ("build", "fit"),
    [("v2.37.0.250724175447_124859", True), ("v2.37.1", True), ("v2.36.0", False), ("v2.51.0", False), ("", False)],
)
def test_major_and_minor_version_count(build: str, fit: bool) -> None:
    assert Versions("2.37.0.250724", build).fit is fit


def test_what_the_library_prints_is_no_answer() -> None:
    assert last_object(' # LIBNATIVE: no "{"\n{"build": "v2.37"}\n # bye\n') == {"build": "v2.37"}
    assert last_object("nothing") == {}


def test_libraries_of_the_sdk_are_searched_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/before")
    variables = environment(tmp_path)
    assert variables["LD_LIBRARY_PATH"] == f"{(tmp_path / LIBRARY).parent}:/before" and variables[ROOT] == str(tmp_path)


def test_integers_and_old_chips_are_refused_before_the_sdk_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ROOT, raising=False)
    target = delegated()
    assert (target.backend, target.format, target.soc_model) == ("qnn_delegate", "pte", 69)
    for recipe, code in (("4bit", "E595"), ("float", "E584")):
        with pytest.raises(EdgecError) as error:
            check_chip(target, for_backend(load_recipe(recipe), target.backend))
        assert error.value.code == code
