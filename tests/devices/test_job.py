from __future__ import annotations

import pytest

from edgec.devices.job import core_numbers
from edgec.errors import InputError


@pytest.mark.parametrize(
    ("text", "cores"), [("0", (0,)), ("4-7", (4, 5, 6, 7)), ("7,0, 2-3,2", (0, 2, 3, 7)), ("5-5", (5,))]
)
def test_lists_of_cores(text: str, cores: tuple[int, ...]) -> None:
    assert core_numbers(text) == cores


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,,2", "-1", "1-2-3", "0x4"])
def test_other_texts_are_not_lists_of_cores(text: str) -> None:
    with pytest.raises(InputError, match="E156"):
        core_numbers(text)
