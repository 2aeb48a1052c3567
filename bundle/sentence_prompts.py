"""The prompts of a sentence encoder: what its authors put before a text, by name.

"sentence_encoder": {"prompts": {"query": "query: ", "document": ""}, "default_prompt": "query", "unpooled": {}}
"""

from __future__ import annotations

from typing import Annotated, Self
from unicodedata import normalize

from pydantic import Field, model_validator

from edgec.bundle.part import JsonCount, JsonPart
from edgec.errors import InputError

USUAL_PROMPTS = ("query", "document")
"""Names that every sentence encoder has; they stand for nothing where its authors give no text."""
READ_ONLY = 2
"""In a mask: a token that is read, and that the pooling leaves out; 1 is any other token, 0 is padding."""
PromptName = Annotated[str, Field(min_length=1, max_length=256)]
PromptText = Annotated[str, Field(max_length=16384)]


class SentencePrompts(JsonPart):
    """What goes before a text.

    ``default_prompt``: the name of that which is used where none is asked for; ``unpooled``: how many tokens of each
    prompt the model reads without pooling them, the tokenizer's own before the text included.
    """

    prompts: dict[PromptName, PromptText] = Field(max_length=256)
    default_prompt: PromptName | None = None
    unpooled: dict[PromptName, JsonCount] = Field(default={})

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.default_prompt is not None and self.default_prompt not in self.prompts:
            raise ValueError(f"there is no prompt {self.default_prompt!r}")
        if len({normalize("NFC", name) for name in self.prompts}) != len(self.prompts):
            raise ValueError("two prompts have names that are written alike")
        if not self.unpooled.keys() <= self.prompts.keys():
            raise ValueError("it counts the tokens of prompts that there are none of")
        return self

    def __str__(self) -> str:
        written = (f"{name} {text!r}" for name, text in self.prompts.items() if text)
        default = f"; before every text: {self.default_prompt}" if self.default_prompt else ""
        return ", ".join(written) + default

    def named(self, name: str | None) -> tuple[str, int]:
        """The text that goes before another, and how many of the tokens at the beginning are read only.

        Args:
            name: of a prompt; None: the default, if there is one; empty: none.

        Raises:
            InputError: E126, there is no such prompt.
        """
        chosen = self.default_prompt if name is None else name
        if not chosen:
            return "", 0
        if chosen not in self.prompts:
            raise InputError(
                f"The model has no prompt {chosen!r:.80}.",
                where="prompt_name",
                why=f"its prompts are {', '.join(self.prompts)}"[:300],
                fix="name one of them, or put the text before yours and give an empty name",
                code="E126",
            )
        return self.prompts[chosen], self.unpooled.get(chosen, 0)


NO_PROMPTS = SentencePrompts(prompts=dict.fromkeys(USUAL_PROMPTS, ""))
