"""Tokenizers with the markers of each notation, models that say what a test tells them to, and conversations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from edgec.bundle.encoding import decode_tokens
from edgec.bundle.notations import CallForm
from edgec.runtime_py.chat import Conversation
from edgec.runtime_py.speculation.speculator import Speculator
from tests.runtime_py.fake_stepper import FakeStepper
from tests.runtime_py.structured.steppers import RandomStepper
from tests.runtime_py.tiny_decoder import tiny_tokenizer

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
                "unit": {"type": "string", "enum": ["C", "F"]},
                "exact": {"type": "boolean"},
            },
            "required": ["city", "days"],
        },
    },
}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
TOOLS = [WEATHER, NOW]
_MESSAGES = (
    "{% if tools %}{{ tools|tojson }}{% endif %}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}</s>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>"
)
OPENED = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"


@lru_cache(maxsize=32)
def tokenizer(marks: str, special: tuple[str, ...] = (), prefill: str = "") -> PreTrainedTokenizerFast:
    """A tokenizer whose chat template shows some marks, with some of them as special tokens."""
    made = tiny_tokenizer()
    made.add_tokens([AddedToken(text, special=True) for text in special], special_tokens=True)
    made.chat_template = f"{{# {marks} #}}{_MESSAGES}{prefill}{{% endif %}}"
    return made


def marks_of(form: CallForm) -> str:
    return " ".join(form.marks)


def said(tokenizer: Any, text: str, eos: bool = True) -> list[int]:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return [*ids, *([tokenizer.eos_token_id] if eos else ())]


def speaker(tokenizer: Any, *messages: str | Sequence[int], context: int = 4096, prefill: str = "") -> FakeStepper:
    """A model whose first message is the first text, and so on; what is masked is left out of it."""
    ahead = len(said(tokenizer, prefill, eos=False))
    turns = [said(tokenizer, text) if isinstance(text, str) else list(text) for text in messages]
    begins = tokenizer.convert_tokens_to_ids("<|assistant|>")

    def rule(tokens: Sequence[int]) -> int:
        turn = [place for place, token in enumerate(tokens) if token == begins]
        if not turn:
            return 0
        script, count = turns[len(turn) - 1], len(tokens) - turn[-1] - 1 - ahead
        return script[count] if count < len(script) else tokenizer.eos_token_id

    return FakeStepper(rule, vocab_size=len(tokenizer), context=context, chunk=64, rows=64)


def talk(
    tokenizer: Any, stepper: FakeStepper | RandomStepper, speculate: Speculator | None = None, **options: Any
) -> Conversation:
    eos = frozenset([tokenizer.eos_token_id])
    return Conversation(
        stepper, tokenizer, lambda ids: decode_tokens(tokenizer, ids), eos, speculate=speculate, **options
    )
