"""Lark's notation as trees."""

from __future__ import annotations

import pytest

from edgec.errors import InputError
from edgec.exporter.schemas.lark import LarkPart, is_terminal, lark_grammar

A, B = LarkPart("text", "a"), LarkPart("rule", "b")


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ('"a" b', LarkPart("all", parts=(A, B))),
        ('"a"\n  | b -> named', LarkPart("any", parts=(A, B))),
        ('"a"+ // b', LarkPart("times", parts=(A,), low=1)),
        ('["a"]', LarkPart("times", parts=(A,), high=1)),
        ('"a"{2,} # b', LarkPart("times", parts=(A,), low=2)),
        ('"a"{,3}', LarkPart("times", parts=(A,), high=3)),
        ('"a"~2', LarkPart("times", parts=(A,), low=2, high=2)),
        ('"a" & ~b', LarkPart("both", parts=(A, LarkPart("other", parts=(B,))))),
        ('"\\x61"i', LarkPart("text", "a", flags="i")),
        ('"a".."z"', LarkPart("range", "az")),
        (r"/a\/[#]/is", LarkPart("pattern", r"a\/[#]", flags="is")),
    ],
)
def test_a_rule_is_read(body: str, part: LarkPart) -> None:
    read = lark_grammar(f'%llguidance {{}}\n\n?start: {body}\nb[lazy]: "b"\n%ignore b\n', "here")
    assert read.rules["start"] == part
    assert read.rules["b"] == LarkPart("soon", parts=(LarkPart("text", "b"),)) and read.ignored == (B,)


def test_imported_terminals_have_the_names_that_were_given() -> None:
    read = lark_grammar("%import common.INT -> NUMBER\n%import common (WS, CNAME)\nstart: NUMBER", "here")
    assert read.rules["NUMBER"] == LarkPart("pattern", "[0-9]+") and {"WS", "CNAME"} <= set(read.rules)
    assert [name for name in ("_A", "B1", "_b", "c") if is_terminal(name)] == ["_A", "B1"]


@pytest.mark.parametrize("text", ["start: %json {}", "start: a::1", 'a[stop="b"]: /c/', "%declare A", "start: ^"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError) as error:
        lark_grammar(text, "here")
    assert error.value.code == "E768" and error.value.where == "here"
