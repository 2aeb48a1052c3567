"""A phone of the user's own: read from one TOML file, known for as long as it is asked for, and refused by field."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from edgec.devices.phone_fields import FIGURES, NAMING, CoreClocks, Number
from edgec.devices.phone_file import added_phone, chosen_target, read_phone
from edgec.devices.targets import all_targets, chips, load_target, phones
from edgec.errors import InputError

HEAD = 'name = "My phone"\nos = "android"\nunits = ["cpu", "gpu"]\n'


def written(folder: Path, fields: str = "", head: str = HEAD, key: str = "my-phone") -> Path:
    file = folder / "phone.toml"
    file.write_text(f"[{key}]\n{head}{fields}")
    return file


def refused(file: Path) -> InputError:
    with pytest.raises(InputError) as caught, added_phone(file):
        pass
    assert caught.value.where == str(file) and "edgec help targets" in caught.value.fix
    return caught.value


def test_its_targets_are_known_while_the_context_lasts(tmp_path: Path) -> None:
    before = all_targets()
    file = written(tmp_path, "memory_bytes = 6_442_450_944\nbandwidth_bytes_per_s = 34.1e9\n")
    with added_phone(file) as key:
        assert key == "my-phone"
        target = load_target("my-phone-gpu")
        assert (target.phone_name, target.unit, target.backend) == ("My phone", "gpu", "vulkan")
        assert (target.memory_bytes, target.bandwidth_bytes_per_s) == (6 * 2**30, 34.1e9)
        assert target.source("memory_bytes") == "phone.toml"
        assert load_target("My phone") == load_target("my-phone-cpu")
        assert len(all_targets()) > len(before)
    assert all_targets() == before
    with pytest.raises(InputError):
        load_target("my-phone")


def test_an_error_inside_forgets_it_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), added_phone(written(tmp_path)):
        raise ZeroDivisionError
    assert "my-phone" not in phones()


def test_a_known_chip_gives_its_figures_and_the_file_replaces_them(tmp_path: Path) -> None:
    fields = 'chip = "dimensity-9500"\nbandwidth_bytes_per_s = 6e10\n'
    source = '[my-phone.sources]\nbandwidth_bytes_per_s = "measured"\n'
    with added_phone(written(tmp_path, fields + source)):
        target = load_target("my-phone")
    assert target.core_clocks_hz == load_target("oppo-find-x9").core_clocks_hz
    assert (target.bandwidth_bytes_per_s, target.source("bandwidth_bytes_per_s")) == (6e10, "measured")


def test_a_phone_without_a_chip_takes_no_figures_from_a_chip_of_its_name(tmp_path: Path) -> None:
    with added_phone(written(tmp_path, key="exynos-2500")):
        target = load_target("exynos-2500")
    assert target.bandwidth_bytes_per_s is None and target.family is None
    assert target.chip is not None and target.chip not in chips()


@pytest.mark.parametrize("key", [key for key in phones() if key != "this-machine"])
def test_every_phone_of_ours_has_a_form_that_a_user_may_write(key: str, tmp_path: Path) -> None:
    table = phones()[key]
    lines = [f"{field} = {toml(value)}" for field, value in table.items() if field != "sources"]
    sources = [f"{field} = {toml(value)}" for field, value in table["sources"].items()]
    file = written(tmp_path, "\n".join([*lines, "[my-own.sources]", *sources]), head="", key="my-own")
    assert read_phone(file) == ("my-own", {**table, "sources": table["sources"]})


def toml(value: Any) -> str:
    """A value as TOML; of the texts here those with a quote are written as literals."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else repr(value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[my-phone]\nname = \xff\xfe", "utf-8"),
        (b"name = ", "Invalid value"),
        (b"a = " + b"[" * 20_000, "nested too deeply"),
        (b"#" * 2**20, "larger than 65,536 bytes"),
        (b"[a]\nmemory_bytes = 1" + b"0" * 5_000, "digits"),
    ],
)
def test_what_is_no_toml_cannot_be_read(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "phone.toml"
    file.write_bytes(content)
    error = refused(file)
    assert error.code == "E860" and said in error.why


@pytest.mark.parametrize("name", ["", "none.toml"])
def test_what_is_no_file_cannot_be_read(name: str, tmp_path: Path) -> None:
    assert refused(tmp_path / name).code == "E860"


@pytest.mark.parametrize("content", ["", HEAD, f"[a]\n{HEAD}[b]\n{HEAD}", f"x = 1\n[a]\n{HEAD}", f"[[a]]\n{HEAD}"])
def test_a_file_holds_one_phone(content: str, tmp_path: Path) -> None:
    file = tmp_path / "phone.toml"
    file.write_text(content)
    assert refused(file).code == "E861"


def test_an_unknown_field_offers_the_nearest(tmp_path: Path) -> None:
    error = refused(written(tmp_path, "memory = 8_589_934_592\n"))
    assert error.code == "E862" and error.why == "did you mean memory_bytes?"
    assert refused(written(tmp_path, f"{'x' * 50_000} = 1\n")).code == "E862"
    assert refused(written(tmp_path, '[my-phone.sources]\nmemory_bytes = "of nothing"\n')).code == "E862"


@pytest.mark.parametrize("field", [*NAMING, *FIGURES])
@pytest.mark.parametrize("value", ["{}", "[{}]", "''", "[]", "2025-09-01", "true", '"\\u202e"', "1"])
def test_a_value_of_another_kind_is_refused(field: str, value: str, tmp_path: Path) -> None:
    """Each field against values of which it may take at most one; one that it takes must be within its limits."""
    lines = [line for line in HEAD.splitlines() if not line.startswith(f"{field} ")]
    file = written(tmp_path, f"{field} = {value}\n", head="\n".join([*lines, ""]))
    kind = {**NAMING, **FIGURES}[field]
    parsed = tomllib.loads(f"v = {value}")["v"]
    if not kind.takes(parsed):
        assert refused(file).code == "E863"
    elif isinstance(kind, Number | CoreClocks) and not kind.holds(parsed):
        assert refused(file).code == "E864"
    else:
        assert (field, value) in {("instruction_set", "[]"), ("driver_limited", "[]"), ("gpu_matrix_units", "true")} | {
            (name, "1") for name in ("gpu_cores", "soc_model")
        }


@pytest.mark.parametrize("lacking", ["name", "os", "units"])
def test_what_every_phone_has_must_be_there(lacking: str, tmp_path: Path) -> None:
    head = "".join(f"{line}\n" for line in HEAD.splitlines() if not line.startswith(lacking))
    error = refused(written(tmp_path, head=head))
    assert error.code == "E863" and error.what == f"the phone's table lacks {lacking}"


@pytest.mark.parametrize(
    "fields",
    [
        "bandwidth_bytes_per_s = 0",
        "bandwidth_bytes_per_s = 1_000_000",
        "bandwidth_bytes_per_s = 68",
        "bandwidth_bytes_per_s = inf",
        "bandwidth_bytes_per_s = nan",
        "bandwidth_bytes_per_s = -6e10",
        "memory_bytes = -1",
        "memory_bytes = 8",
        "core_clocks_hz = [[4, 2.5]]",
        "core_clocks_hz = [[0, 2.5e9]]",
        "gpu_cores = 0",
        "memory_bytes = 4_294_967_296\napp_limit_bytes = 4_294_967_296",
        "app_limit_bytes = 3_000_000_000\napp_limit_entitled_bytes = 2_000_000_000",
        'instruction_set = ["dotprod", "dotprod"]',
    ],
)
def test_a_figure_out_of_its_limits_or_against_another_is_refused(fields: str, tmp_path: Path) -> None:
    assert refused(written(tmp_path, fields)).code == "E864"


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (HEAD + 'chip = "dimensity-7301"\n', "did you mean dimensity-7300"),
        (HEAD + 'kind = "fridge"\n', "board"),
        (HEAD + 'instruction_set = ["avx512"]\n', "dotprod"),
        ('name = "a"\nos = "symbian"\nunits = ["cpu"]\n', "android"),
        ('name = "a"\nos = "android"\nunits = ["tpu"]\n', "npu"),
        ('name = "a"\nos = "windows"\nunits = ["cpu"]\n', ""),
    ],
)
def test_an_unknown_word_is_refused(head: str, said: str, tmp_path: Path) -> None:
    error = refused(written(tmp_path, head=head))
    assert error.code == "E865" and said in error.why


@pytest.mark.parametrize(
    "key", ["galaxy-s24-ultra", "host", "iphone-16-pro-cpu", "galaxys24-ultra", "My-Phone", '"a b"']
)
def test_a_name_that_is_taken_or_no_name_is_refused(key: str, tmp_path: Path) -> None:
    assert refused(written(tmp_path, key=key)).code == "E866"


def test_the_target_is_of_the_file_s_phone(tmp_path: Path) -> None:
    with added_phone(written(tmp_path)) as key:
        assert chosen_target(key, None) == "my-phone"
        assert chosen_target(key, "gpu") == "my-phone-gpu" == chosen_target(key, "my-phone-gpu")
        with pytest.raises(InputError) as caught:
            chosen_target(key, "pixel-8")
        assert caught.value.code == "E866"
    assert chosen_target(None, "pixel-8") == "pixel-8"
    with pytest.raises(InputError) as caught:
        chosen_target(None, None)
    assert caught.value.code == "E866"
