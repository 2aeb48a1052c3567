"""Targets: every figure has a source, every name resolves, and unknown figures are stated as unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgec.devices.phone_fields import FIGURES, NAMING
from edgec.devices.targets import aliases, all_targets, chips, load_target, phone_known, phones
from edgec.errors import InputError

TABLES = [*chips().items(), *phones().items()]


@pytest.mark.parametrize(("key", "table"), TABLES, ids=[key for key, _ in TABLES])
def test_each_stated_figure_names_its_source_and_nothing_else_does(key: str, table: Mapping[str, Any]) -> None:
    stated = set(table) - {*NAMING, "sources"}
    assert stated <= set(FIGURES), "a key nobody reads"
    assert stated == set(table["sources"])
    assert all(source.strip() for source in table["sources"].values())


MOBILE = {key: table for key, table in phones().items() if table["os"] in ("ios", "android")}


def test_every_phone_has_a_known_chip_and_an_npu_only_where_hexagon_is_known() -> None:
    assert all(table["chip"] in chips() for table in MOBILE.values())
    hexagons = {key for key, table in chips().items() if "hexagon" in table}
    with_npu = {key for key, table in MOBILE.items() if table["os"] == "android" and "npu" in table["units"]}
    assert {MOBILE[key]["chip"] for key in with_npu} <= hexagons


def test_the_guide_says_how_many_phones_there_are_and_what_is_unknown() -> None:
    guide = " ".join((Path(__file__).parents[2] / "docs" / "targets.md").read_text().split())
    whole = [{**chips()[table["chip"]], **table} for table in MOBILE.values()]
    lacking = {field: sum(field not in table for table in whole) for field in ("memory_bytes", "bandwidth_bytes_per_s")}
    assert f"edgec knows {len(MOBILE)} phones and tablets" in guide
    assert f"the memory of {lacking['memory_bytes']} and the bandwidth of {lacking['bandwidth_bytes_per_s']}" in guide
    assert f"Of {sum('bandwidth_low_bytes_per_s' in table for table in whole)} phones the bandwidth is a range" in guide


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_figures_are_plausible(target: Any) -> None:
    for value, low, high in (
        (target.memory_bytes, 2e9, 32e9),
        (target.bandwidth_bytes_per_s, 10e9, 820e9 if target.kind == "laptop" else 200e9),
        (target.bandwidth_low_bytes_per_s, 10e9, target.bandwidth_bytes_per_s or 0),
        (target.gpu_fp32_flops_per_s, 0.5e12, 10e12),
        (target.npu_ops_per_s, 5e12, 200e12),
    ):
        assert value is None or low <= value <= high
    if target.app_limit_bytes:
        entitled = target.app_limit_entitled_bytes or target.app_limit_bytes
        assert target.app_limit_bytes <= entitled < target.memory_bytes
    assert target.released is None or re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", target.released)
    assert set(target.weight_bits) <= {1, 2, 3, 4, 6, 8, 16, 32}


def test_short_and_long_names_are_one_target() -> None:
    short = load_target("iphone-16-pro")
    assert short == load_target("iphone-16-pro-npu") == load_target("iphone-16-pro-npu-pte")
    assert (short.unit, short.format, short.backend, short.chip) == ("npu", "pte", "coreml", "a18-pro")
    other = load_target("iphone-16-pro-npu-aimodel")
    assert (other.format, other.backend, other.name) == ("aimodel", "coreai", "iphone-16-pro-npu-aimodel")
    assert load_target("iphone-16-pro-cpu").backend == "xnnpack"


def test_aliases_keep_their_name_and_point_to_a_target() -> None:
    mobile = {"snapdragon-8-gen-2", "snapdragon-8-gen-3", "snapdragon-8-elite", "snapdragon-8-elite-gen-5"}
    litert = {"android-litert", "android-litert-gpu"}
    laptops = {"snapdragon-x-elite", "snapdragon-x2-elite"}
    assert set(aliases()) == {"iphone", "android-cpu", "android-gpu", "host", *litert, *mobile, *laptops}
    for alias, full in aliases().items():
        assert load_target(alias).name == alias
        assert load_target(alias).alias_of == full
        assert load_target(alias).phone == load_target(full).phone


def test_what_export_supports() -> None:
    supported = [target for target in all_targets() if target.export_supported]
    assert {(target.os, target.backend, target.unit) for target in supported} == {
        ("linux", "xnnpack", "cpu"),
        ("android", "xnnpack", "cpu"),
        ("linux", "onnx", "cpu"),
        ("linux", "gguf", "cpu"),
        ("android", "onnx", "cpu"),
        ("android", "qnn", "npu"),
        ("android", "qnn_delegate", "npu"),
        ("android", "vulkan", "gpu"),
        ("android", "litert", "cpu"),
        ("android", "litert_gpu", "gpu"),
        ("ios", "xnnpack", "cpu"),
        ("ios", "coreml", "npu"),
        ("ios", "coreai", "npu"),
        ("ios", "coreml_gpu", "gpu"),
        ("ios", "coreai_gpu", "gpu"),
        ("ios", "mlx", "gpu"),
        ("macos", "mlx", "gpu"),
        ("macos", "coreml_gpu", "gpu"),
        ("macos", "coreai_gpu", "gpu"),
    }
    assert load_target("host").export_supported
    assert load_target("android-cpu").export_supported


def test_what_is_not_stated_is_none() -> None:
    host = load_target("host")
    assert host.memory_bytes is None
    assert host.bandwidth_bytes_per_s is None
    assert host.source("memory_bytes") is None
    assert load_target("iphone-16-pro").app_limit_bytes is None


def test_figures_carry_their_source_through() -> None:
    target = load_target("iphone-13-pro")
    assert target.app_limit_bytes == 3_120_000_000
    assert "pocketpal" in str(target.source("app_limit_bytes"))
    assert "topcpu" in str(target.source("bandwidth_bytes_per_s"))


def test_a_bandwidth_of_ones_own_leaves_nothing_of_the_chips_range() -> None:
    assert load_target("pixel-8").bandwidth_low_bytes_per_s == 51.2e9
    table = {**phones()["pixel-8"], "bandwidth_bytes_per_s": 60e9}
    with phone_known("own-pixel", table):
        own = load_target("own-pixel")
    assert (own.bandwidth_low_bytes_per_s, own.bandwidth_bytes_per_s) == (None, 60e9)


def test_an_unknown_target_names_the_nearest_ones() -> None:
    with pytest.raises(InputError) as caught:
        load_target("iphone-16-prow")
    assert caught.value.code == "E163"
    assert "iphone-16-pro" in caught.value.fix


def test_a_machines_own_figures_replace_its_chips() -> None:
    small, large = load_target("mac-m4-max-32-core"), load_target("mac-m4-max-40-core")
    assert (small.chip, small.unit, small.gpu_cores, small.bandwidth_bytes_per_s) == ("m4-max", "gpu", 32, 410e9)
    assert large.bandwidth_bytes_per_s == 546e9
    assert load_target("raspberry-pi-5").kind == "board"
