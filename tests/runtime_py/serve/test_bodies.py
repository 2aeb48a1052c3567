"""Bodies of requests: what is taken, and how what is not is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgec.runtime_py.serve.bodies import CompletionBody, read_body
from edgec.runtime_py.serve.problems import RequestError


def completion(**asked: Any) -> CompletionBody:
    return read_body(json.dumps({"model": "tiny", "prompt": "a", **asked}).encode(), CompletionBody)


@pytest.mark.parametrize("stop", ["x" * 40, ["x" * 40] * 16])
def test_a_stop_string_may_be_longer_than_there_may_be_strings(stop: str | list[str]) -> None:
    assert completion(stop=stop).stop == stop


def test_more_than_sixteen_stop_strings_are_refused() -> None:
    with pytest.raises(RequestError, match="stop: at most 16 strings are taken") as caught:
        completion(stop=["x"] * 17)
    assert (caught.value.code, caught.value.param) == ("E632", "stop")


def test_a_long_name_is_not_sent_back_whole() -> None:
    with pytest.raises(RequestError) as caught:
        completion(**{"x" * 100_000: 1})
    assert caught.value.code == "E633" and len(caught.value.param) == 80
