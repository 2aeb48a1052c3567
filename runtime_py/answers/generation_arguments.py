"""The arguments of one generation, which `generate` and the streams share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.runtime_py.media.image_file import ImageSource
from edgec.runtime_py.media.sound_file import SoundSource
from edgec.runtime_py.messages.message_format import NO_CHAT_OPTIONS, ChatOptions
from edgec.runtime_py.speculation.choice import OFF

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle

_BUDGET = "thinking_budget"


@dataclass(frozen=True)
class GenerationArguments:
    """What was asked for in one call of ``generate`` or ``stream``, as it was given; `Model.generate` describes each.

    Attributes:
        prompt: text, or token ids.
        options: those of ``request``, and ``thinking_budget`` with ``template``.
    """

    prompt: str | Sequence[int]
    template: bool = False
    speculate: str | Path | Bundle = OFF
    resume: bool = False
    language: str | None = None
    images: Sequence[ImageSource] = ()
    audio: Sequence[SoundSource] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def chat_options(self) -> ChatOptions:
        """The budget of reasoning, which a chat template may have a place for."""
        return ChatOptions(thinking_budget=self.options.get(_BUDGET)) if self.template else NO_CHAT_OPTIONS

    @property
    def request_options(self) -> dict[str, Any]:
        """The options that a request is made of; a ``thinking_budget`` without a template stays, and is refused."""
        return {name: value for name, value in self.options.items() if not self.template or name != _BUDGET}
