"""The typed errors of tools and thinking."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.errors import InputError

_MOST = 300


@dataclass
class MalformedCall(InputError):
    """The model opened a call of a tool and did not write one; ``text`` is all of its message, with the markers."""

    text: str = ""


def no_tools_here(why: str) -> InputError:
    """A bundle whose chat template shows neither tools nor a message that describes them."""
    fix = "use a model trained to call tools, in one of the formats of docs/structured-output.md"
    return InputError("This bundle's chat template has no place for tools.", "chat_template", why[:_MOST], fix, "E622")


def malformed_call(text: str, why: str) -> MalformedCall:
    """A call that cannot be read; nothing of the message is dropped."""
    fix = "raise max_new_tokens where the text ran out; else ask again, or handle the error's text"
    what = "The model wrote a call that is none."
    return MalformedCall(what, repr(text[-_MOST:]), why[:_MOST], fix, "E623", text)


def foreign_result(name: str) -> InputError:
    """A result that belongs to no call."""
    fix = "give one of reply.tool_calls, or its id"
    return InputError(f"No call {name!r:.60} waits for a result.", "add_result", "", fix, "E624")


def no_thinking(what: str, why: str, fix: str) -> InputError:
    """A budget for reasoning that cannot be kept."""
    return InputError(what, "thinking_budget", why[:_MOST], fix, "E625")


def no_such_choice(choice: object, why: str) -> InputError:
    """A choice among the tools that cannot be kept."""
    fix = 'give "auto", "none", "required" or the name of a tool'
    return InputError(f"tool_choice is {choice!r:.60}.", "tool_choice", why, fix, "E626")


def tools_and_structure() -> InputError:
    """A text that is to be JSON of one schema and calls of tools at once."""
    fix = "ask for the schema once the tools have answered"
    return InputError("Tools and a structure exclude each other.", "tools", "", fix, "E627")


def nothing_said() -> InputError:
    """A conversation that waits for nothing."""
    what, fix = "There is nothing to answer.", "give a message, or add the results of calls first"
    return InputError(what, "send", "the conversation ends with an assistant's answer, or is empty", fix, "E628")
