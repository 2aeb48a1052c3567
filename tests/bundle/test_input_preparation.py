"""Declarations of how images and sounds become inputs: read as data, and refused by name where they are malformed."""

from __future__ import annotations

from typing import Any

import pytest

from edgec.bundle.input_preparation import ImagePreparation, SoundPreparation, read_preparations
from edgec.errors import InputError

NAMES = ["x", "wave"]


def test_dicts_become_declarations_and_defaults_are_those_of_the_page() -> None:
    read = read_preparations({"x": {"kind": "image"}, "wave": {"kind": "sound", "rate": 16_000}}, NAMES, "net:make")
    assert read["x"] == ImagePreparation(kind="image", colours="RGB", channels="first", scale=1 / 255, mean=0, std=1)
    assert read["wave"] == SoundPreparation(kind="sound", rate=16_000)
    assert read_preparations(dict(read), NAMES, "net:make") == read
    for how in read.values():
        assert type(how).model_validate_json(how.model_dump_json()) == how


def test_an_image_is_brought_to_its_size_as_declared() -> None:
    assert ImagePreparation(kind="image").whole(32, 48).fit == "stretch"
    assert ImagePreparation(kind="image", fit="cover").whole(32, 48).edge == 48
    assert ImagePreparation(kind="image", fit="cover", edge=64).whole(32, 48).edge == 64
    assert ImagePreparation(kind="image", fit="contain").whole(32, 48).colour == (0, 0, 0)


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        (["image"], "list"),
        ({"y": {"kind": "image"}}, "y"),
        ({"x": 5}, "x"),
        ({"x": {}}, "kind"),
        ({"x": {"kind": "video"}}, "video"),
        ({"x": {"kind": "image", "means": 0}}, "means"),
        ({"x": {"kind": "image", "mean": [0.5, 0.5]}}, "mean has 2 numbers"),
        ({"x": {"kind": "image", "colours": "grey", "std": [1, 1, 1]}}, "grey has 1"),
        ({"x": {"kind": "image", "std": 0}}, "std"),
        ({"x": {"kind": "image", "mean": float("nan")}}, "mean"),
        ({"x": {"kind": "image", "scale": float("inf")}}, "scale"),
        ({"x": {"kind": "image", "edge": 256}}, "cover"),
        ({"x": {"kind": "image", "fit": "contain", "colour": [0, 0, 300]}}, "colour"),
        ({"wave": {"kind": "sound"}}, "rate"),
        ({"wave": {"kind": "sound", "rate": 0}}, "rate"),
        ({"wave": {"kind": "sound", "rate": 16_000, "step": 0}}, "step"),
    ],
)
def test_malformed_ones_are_refused_by_name(declared: Any, named: str) -> None:
    with pytest.raises(InputError) as refused:
        read_preparations(declared, NAMES, "net:make")
    assert refused.value.code == "E850" and named in (refused.value.why or "") and refused.value.where == "net:make"
