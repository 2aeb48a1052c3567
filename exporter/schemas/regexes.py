"""A regular expression of a whole text as an automaton over bytes: the same texts that `edgec run --regex` allows."""

from __future__ import annotations

from edgec.errors import InputError
from edgec.exporter.schemas.compiled import MOST_STATES
from edgec.exporter.schemas.pushdown import Pushdown
from edgec.exporter.schemas.refusals import too_large_automaton
from edgec.exporter.schemas.regular import RegularPool, TooManyStates
from edgec.exporter.schemas.text_patterns import whole_term
from edgec.runtime_py.structured.refusals import empty
from edgec.runtime_py.structured.wanted import wanted


def compile_regex(pattern: str, where: str) -> Pushdown:
    """Compile a regular expression that the whole text matches.

    Raises:
        InputError: E616, it is none; E615, no text matches it; E710, `edgec run` enforces a part and this automaton
            does not; E711, it exceeds a limit.
        ToolError: E619, llguidance is not installed.
    """
    wanted(regex=pattern)
    pool, machine = RegularPool(), Pushdown()
    try:
        machine.embed(pool.automaton(whole_term(pool, pattern, where), MOST_STATES))
    except (TooManyStates, RecursionError) as error:
        raise too_large_automaton(where, f"its automaton has more than {MOST_STATES:,} states") from error
    except InputError as error:
        what = "The regular expression cannot be compiled into a bundle."
        fix = "say it otherwise, or give it to edgec run --regex alone (docs/structured-output.md)"
        raise InputError(what, error.where, error.why, fix, error.code) from error
    if not machine.productive()[0]:
        raise empty(where, "no text matches the regular expression")
    return machine.trimmed()
