"""The typed errors of structured output."""

from __future__ import annotations

import sys

from edgec.errors import InputError, ToolError

_MOST = 300


def contradiction(what: str, fix: str) -> InputError:
    """Options that exclude each other."""
    return InputError(what, where="structured output", fix=fix, code="E610")


def unreadable(where: str, why: str) -> InputError:
    """A file that holds no schema or grammar."""
    fix = "give a text file in UTF-8; a schema is JSON"
    return InputError("The file cannot be read.", where, why[:_MOST], fix, "E611")


def no_schema(where: str, why: str) -> InputError:
    """A value that is not a JSON Schema."""
    fix = "correct the schema (JSON Schema 2020-12, or an older draft that $schema names)"
    return InputError("This is not a JSON Schema.", where, why[:_MOST], fix, "E612")


def not_enforced(keyword: str, where: str, why: str) -> InputError:
    """A keyword that no text could be held to."""
    what = f"The schema's keyword {keyword!r} cannot be enforced."
    fix = "remove it, or say it otherwise (docs/structured-output.md lists what is enforced)"
    return InputError(what, where, why[:_MOST], fix, "E613")


def too_much(where: str, why: str) -> InputError:
    """Something beyond the limits of size, depth or complexity."""
    fix = "use a smaller or a flatter one"
    return InputError("The schema or grammar exceeds a limit.", where, why[:_MOST], fix, "E614")


def empty(where: str, why: str) -> InputError:
    """Something that no text fulfils."""
    fix = "correct the parts that contradict each other"
    return InputError("No text fulfils the schema or grammar.", where, why[:_MOST], fix, "E615")


def malformed(where: str, why: str) -> InputError:
    """A regular expression or grammar that cannot be understood."""
    fix = "correct it (docs/structured-output.md says what is understood)"
    what = "The regular expression or grammar cannot be used."
    return InputError(what, where, why[:_MOST], fix, "E616")


def unsuited(where: str, why: str) -> InputError:
    """A bundle whose texts cannot be structured."""
    fix = "use a decoder with a byte-level or byte-fallback tokenizer, or generate without a schema"
    return InputError("This bundle cannot write structured text.", where, why[:_MOST], fix, "E617")


def refused_value(where: str, why: str) -> InputError:
    """A text that fulfils the schema of a class, and that the class itself refuses."""
    fix = "put the condition into the schema, or read the text with schema=MODEL.model_json_schema()"
    return InputError("The class refuses a text that fulfils its schema.", where, why[:_MOST], fix, "E618")


def no_process(why: str) -> ToolError:
    """No process can be started to hold texts in."""
    what = "The process that holds texts to schemas and grammars cannot be used."
    fix = "run 'edgec doctor'; edgec starts processes with the Python that runs it"
    return ToolError(what, sys.executable or "python", why[:_MOST], fix, "E647")
