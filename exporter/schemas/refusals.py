"""Errors about schemas, regular expressions and grammars that a bundle is to hold."""

from __future__ import annotations

from edgec.errors import InputError

_GUIDE = "docs/structured-output.md says what a bundle's schemas may have"


def not_compiled(keyword: str, where: str, why: str) -> InputError:
    """E710, `edgec run` enforces a keyword, the automaton in a bundle does not."""
    what = f"The schema's keyword {keyword!r} cannot be compiled into a bundle."
    return InputError(what, where, why, f"say it otherwise, or give the schema to edgec run alone; {_GUIDE}", "E710")


def too_large_automaton(where: str, why: str) -> InputError:
    """E711, an automaton exceeds a limit."""
    what = "The schema is too large to be compiled into a bundle."
    fix = "lower maxLength, maxItems, or the number of properties, repetitions or rules"
    return InputError(what, where, why, fix, "E711")


def not_named(text: str) -> InputError:
    """E712, what stands after ``--schema``, ``--regex`` or ``--grammar`` of an export does not name something."""
    why = (
        "a name has up to 64 letters, digits, - and _, and begins with a letter; each may be given once, "
        "and capital letters alone do not make another one"
    )
    return InputError(
        f"{text!r} does not name a schema.",
        "--schema, --regex or --grammar",
        why,
        "write NAME=FILE, as person=person.json or sum=sum.lark, and NAME=REGEX, as year=[0-9]{4}",
        "E712",
    )


def no_vocabulary(where: str, why: str) -> InputError:
    """E713, a bundle of this kind holds no schemas."""
    what = "This model's bundle cannot hold a schema."
    return InputError(
        what, where, why, "leave --schema, --regex and --grammar out; edgec run takes them without it", "E713"
    )


def not_in_notation(where: str, found: str) -> InputError:
    """E768, the notation of a grammar has a part that the automaton in a bundle does not enforce."""
    return grammar_refused(where, f"it does not enforce {found}", "write it with rules and terminals alone", "E768")


def unclear_end(where: str, why: str) -> InputError:
    """E771, where a terminal of a grammar ends depends on more than the automaton knows."""
    fix = "put something between the two that neither holds, as a space, or write them as one terminal"
    return grammar_refused(where, why, fix, "E771")


def grammar_refused(where: str, why: str, fix: str, code: str) -> InputError:
    """Another error about a grammar."""
    other = "or give the grammar to edgec run --grammar alone"
    return InputError("The grammar cannot be compiled into a bundle.", where, why, f"{fix}, {other}", code)
