"""One answer of a conversation."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.generation.generate import Generation


@dataclass(frozen=True)
class Reply:
    """One answer. ``dropped_messages``: oldest messages left out because the context was full."""

    generation: Generation
    dropped_messages: int

    @property
    def text(self) -> str:
        """The answer's text, without reasoning and calls."""
        return self.generation.text

    @property
    def reasoning(self) -> str:
        """What was said before the answer, where the chat template tells the two apart."""
        return self.generation.reasoning

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of tools, in their order."""
        return self.generation.tool_calls
