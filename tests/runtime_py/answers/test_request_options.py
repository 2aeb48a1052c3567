"""Options of a text: those that type checkers know are those that a request takes; mistyped ones are named."""

from __future__ import annotations

from dataclasses import fields

import pytest

from edgec.errors import InputError
from edgec.runtime_py.answers.request_options import NAMES, check_names
from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.model import Model


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("max_tokens", "max_new_tokens"),
        ("temprature", "temperature"),
        ("do_sample", "temperature"),
        ("response_format", "schema"),
        ("stop_sequences", "stop"),
        ("top-k", "top_k"),
    ],
)
def test_a_mistyped_option_is_told_its_name(name: str, meant: str) -> None:
    with pytest.raises(InputError) as refused:
        check_names(["seed", name])
    assert refused.value.code == "E898" and refused.value.fix == f"did you mean {meant}?"


def test_nothing_is_guessed_far_away() -> None:
    with pytest.raises(InputError) as refused:
        check_names(["zzzz"])
    assert refused.value.fix == "leave it out"


def test_every_option_of_sampling_is_one_of_a_request() -> None:
    check_names(NAMES)
    assert {field.name for field in fields(Sampling)} <= set(NAMES)


def test_editors_see_the_options_of_every_way_to_ask() -> None:
    for method in (Model.generate, Model.stream, Model.stream_async, Model.generate_async, Model.transcribe):
        assert "Options]" in str(method.__annotations__["options"])
