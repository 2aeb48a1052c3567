"""`edgec targets`: the list, one target with its sources, and the same for machines."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from edgec.cli.targets import targets
from edgec.devices.targets import all_targets, load_target, phones

APP = typer.Typer()
APP.command()(targets)


def output(*arguments: str) -> str:
    result = CliRunner().invoke(APP, list(arguments), env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_list_has_every_phone_and_says_unknown() -> None:
    text = output()
    assert all(phone in text for phone in phones())
    assert "unknown" in text
    assert "host = this-machine" in text


def test_one_target_shows_each_figure_with_its_source() -> None:
    text = output("iphone-13-pro")
    for expected in ("3.12 GB", "pocketpal-ai", "34.1 GB/s", "topcpu.net", "pte through coreml"):
        assert expected in text


def test_iphone_is_what_the_guide_says_it_is() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()
    meaning = "iphone = the oldest iPhone that the model fits"
    assert meaning.replace("iphone =", "`iphone` is") in guide
    assert meaning in " ".join(output().split()) and "iphone = iphone-16-pro" not in " ".join(output().split())
    assert f"{meaning}; the figures are those of iphone-16-pro" in " ".join(output("iphone").split())
    assert f"those of the {load_target('iphone').phone_name.removeprefix('Apple ')}" in guide
    target = json.loads(output("iphone", "--json"))[0]
    assert target["stands_for"] == "the oldest iPhone that the model fits"


def test_a_short_name_for_one_target_says_which() -> None:
    text = " ".join(output("android-cpu").split())
    assert "android-cpu = oneplus-12-cpu" in text and "the figures are" not in text
    assert "stands for" not in output("oneplus-12-cpu")


def test_json_has_every_target_with_null_for_unknown() -> None:
    data = json.loads(output("--json"))
    assert [entry["name"] for entry in data] == [target.name for target in all_targets()]
    host = next(entry for entry in data if entry["phone"] == "this-machine")
    assert host["memory_bytes"] is None
    assert json.loads(output("host", "--json"))[0]["alias_of"] == "this-machine"


def test_a_phone_of_the_users_own_is_shown_with_its_sources(tmp_path: Path) -> None:
    file = tmp_path / "phone.toml"
    file.write_text('[my-phone]\nname = "My phone"\nos = "android"\nunits = ["cpu"]\ninstruction_set = []\n')
    text = output("--phone", str(file))
    assert "my-phone: My phone, cpu, pte through xnnpack" in text and "Armv8.0" in text and "phone.toml" in text
    assert json.loads(output("cpu", "--phone", str(file), "--json"))[0]["phone"] == "my-phone"
    assert "my-phone" not in output()
