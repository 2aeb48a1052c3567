"""What a system prompt needs whose state is shipped with a bundle."""

from __future__ import annotations

from edgec.bundle.prefix import SystemPrompt
from edgec.errors import InputError, ToolError
from edgec.runtime_py.engines.choice import choose_engine


def check_prompt(prompt: SystemPrompt, context: int, longest: int) -> None:
    """Refuse, before any work, a system prompt whose state cannot be shipped.

    Args:
        prompt: the prompt as tokens.
        context: positions that the artifact serves.
        longest: positions that the model was trained for.

    Raises:
        InputError: E150, it leaves no room for a question.
        ToolError: E330, this machine has no engine that gives access to states.
    """
    needed = len(prompt.tokens) + 1
    if needed > context:
        raise InputError(
            what=f"The system prompt of {needed - 1} tokens leaves no room in the context of {context}.",
            where="--system-prompt",
            why=f"the model was made for {longest} positions",
            fix=f"use --context {needed} or more" if needed <= longest else f"shorten it to {longest - 1} tokens",
            code="E150",
        )
    if choose_engine(()) != "edgec":
        raise out_of_reach("edgec's engine cannot be compiled here")


def out_of_reach(why: str) -> ToolError:
    """The error where no engine here gives access to states."""
    return ToolError(
        "The state of a system prompt cannot be computed.",
        where="--system-prompt",
        why=why,
        fix="install a C++ compiler (see 'edgec doctor') and use edgec's kernels, or leave --system-prompt out",
        code="E330",
    )
