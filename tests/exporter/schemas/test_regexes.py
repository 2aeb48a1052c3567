r"""Regular expressions compiled for bundles allow the bytes that the library of `edgec run --regex` allows."""

from __future__ import annotations

import random

import pytest

from edgec.errors import InputError
from edgec.exporter.options import parse_regexes
from edgec.exporter.schemas.regexes import compile_regex
from edgec.runtime_py.structured.wanted import wanted
from tests.exporter.schemas.walker import Walker, first_difference, matcher_of

WALKS, STEPS = 8, 40
ALIKE = (
    r"[0-9]{4}-[01][0-9]",
    r"(yes|no)( really)*",
    r".{3}",
    r"[^a]b",
    r"a|b|",
    r"é+[ä-ü]",
    r"\s?x\S",
    r"a{2,}?b",
    r"\x41\t\n\u00e9\.",
    r"(?:a(?P<x>b))c",
    r"[]a\-\]]+",
    r"\v\f\a\-\ \#",
    "\u2028?\x00",
    r"(ab|a)(c|bcd)",
)
REFUSED = (
    *(r"\d{4}", r"\w+", r"[\d.]", r"\D", r"\W"),
    *(r"^ab$", r"a$b", r"\bq", r"(?i)q", r"\pL", r"a(?=b)"),
    *(r"[[:alpha:]]", r"[a[b]]", r"[a~~b]", r"[a--b]", r"a{2}{3}"),
)


def difference(pattern: str, chance: random.Random) -> str:
    """Walk at random along both; says where they first allow different bytes, or nothing."""
    asked = wanted(regex=pattern)
    assert asked is not None
    return first_difference(Walker(compile_regex(pattern, "here")), matcher_of(asked), chance, STEPS)


@pytest.mark.parametrize("pattern", ALIKE, ids=ascii)
def test_the_same_bytes_may_come_as_in_the_library(pattern: str) -> None:
    assert [difference(pattern, random.Random(seed)) for seed in range(WALKS)] == [""] * WALKS


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_the_two_read_differently_is_refused(pattern: str) -> None:
    with pytest.raises(InputError) as error:
        compile_regex(pattern, "--regex here")
    told = error.value
    assert told.code in ("E710", "E616") and told.where in ("--regex here", "regex") and told.why


def test_what_is_no_expression_or_has_no_text_or_too_many_states_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for pattern, code in (("(", "E616"), (r"[^\x00-\U0010ffff]", "E615")):
        with pytest.raises(InputError) as error:
            compile_regex(pattern, "here")
        assert error.value.code == code
    monkeypatch.setattr("edgec.exporter.schemas.regexes.MOST_STATES", 500)
    with pytest.raises(InputError) as error:
        compile_regex("(a|b)*a(a|b){9}", "here")
    assert error.value.code == "E711"


def test_names_are_those_of_schemas() -> None:
    assert parse_regexes(["year=[0-9]{4}", "sum=a=b"]) == {"year": "[0-9]{4}", "sum": "a=b"}
    for wrong in (["year"], ["year="], ["1=a"], ["a=b", "a=c"]):
        with pytest.raises(InputError) as error:
            parse_regexes(wrong)
        assert error.value.code == "E712"
