"""Adapters of an export: names, targets, recipes and modules that are refused before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.backends.forms import FORMS
from edgec.bundle.shipped_adapters import ADAPTER_NAME
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions, parse_adapters
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import with_changes
from edgec.exporter.resolve.adapters import check_adaptable, check_form, read_loras
from edgec.exporter.resolve.resolved import resolve_options
from tests.runtime_py.adapters.loras import EVERY, pairs, write_lora

APPLE: dict[str, Any] = {"target": "iphone", "format": "mlpackage"}


def refused(code: str, folder: Path, adapters: dict[str, Path], **where: Any) -> InputError:
    """The refusal of an export, which comes before anything is captured."""
    with pytest.raises(InputError, match=code) as caught:
        resolve_options(ExportOptions(folder, adapters=adapters, **{**APPLE, **where}))
    return caught.value


@pytest.mark.parametrize("texts", [["pirate"], ["pirate="], ["pirate=a", "pirate=b"]])
def test_each_has_a_name_and_a_folder(texts: list[str]) -> None:
    with pytest.raises(InputError, match="E764"):
        parse_adapters(texts)


@pytest.mark.parametrize("name", ["", "1st", "two words", "poet-2", "größe", "a.b", "x" * 65, "pirate\n"])
def test_names_that_are_no_identifiers_are_refused(name: str, tiny_folder: Path, tmp_path: Path) -> None:
    assert not ADAPTER_NAME.fullmatch(name)
    with pytest.raises(InputError, match="E764"):
        edgec.export(tiny_folder, **APPLE, adapters={name: tmp_path}, out=tmp_path / "x.edgec")


def test_names_and_folders_are_kept_in_order() -> None:
    assert parse_adapters(["b=x=y", "a_1=z"]) == {"b": Path("x=y"), "a_1": Path("z")}


@pytest.mark.parametrize("target", ["host", "android-cpu"])
def test_on_cpus_adapters_are_files_that_are_added_at_run_time(target: str, tiny_folder: Path, tmp_path: Path) -> None:
    error = refused("E765", tiny_folder, {"pirate": tmp_path}, target=target, format=None)
    assert "edgec adapter" in error.why


def test_each_format_says_whether_it_has_functions_under_adapters() -> None:
    held = {key for key, form in FORMS.items() if not form.unadapted}
    assert held == {
        ("coreml", "mlpackage"),
        ("coreml", "pte"),
        ("coreai", "aimodel"),
        ("coreml_gpu", "mlpackage"),
        ("coreai_gpu", "aimodel"),
    }
    for key, form in FORMS.items():
        if key not in held:
            with pytest.raises(InputError, match="E765") as caught:
                check_form(["pirate"], form)
            assert caught.value.why == form.unadapted
        check_form((), form)


@pytest.mark.parametrize("prepare", ["rotate", "awq", "smooth"])
def test_recipes_that_change_the_matrices_bases_are_refused(prepare: str) -> None:

    recipe, form = with_changes(load_recipe("4bit"), prepare=(prepare,)), FORMS["coreml", "mlpackage"]
    with pytest.raises(InputError, match="E766") as caught:
        check_adaptable({"pirate": "x"}, form, recipe)
    assert prepare in caught.value.why
    check_adaptable({}, form, recipe)


def test_modules_are_held_against_the_model(tiny_folder: Path, tmp_path: Path) -> None:
    own = write_lora(tmp_path / "own", pairs(EVERY))
    resolved = resolve_options(ExportOptions(tiny_folder, adapters={"pirate": own}, **APPLE))
    assert [lora.name for lora in resolved.request.loras] == ["pirate"]
    elsewhere = write_lora(tmp_path / "elsewhere", pairs(EVERY, layers=3))
    error = refused("E693", tiny_folder, {"pirate": own, "poet": elsewhere})
    assert "model.layers.2" in error.what
    (a, b) = pairs()["model.layers.0.self_attn.q_proj"]
    wide = write_lora(tmp_path / "wide", {"model.layers.0.self_attn.q_proj": (a.repeat(1, 2), b)})
    assert "[4, 64] instead of [4, 32]" in refused("E694", tiny_folder, {"pirate": wide}).why


def test_a_folder_that_cannot_be_read_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    refused("E691", tiny_folder, {"pirate": tmp_path / "absent"})
    dora = write_lora(tmp_path / "dora", pairs(), use_dora=True)
    refused("E692", tiny_folder, {"pirate": dora})


def test_bytes_are_those_of_a_and_b(tmp_path: Path) -> None:
    (lora,) = read_loras({"pirate": write_lora(tmp_path / "own", pairs(EVERY, rank=3))})
    numbers = sum(a.numel() + b.numel() for a, b in pairs(EVERY, rank=3).values())
    assert (lora.bytes(2), lora.bytes(4)) == (2 * numbers, 4 * numbers)
