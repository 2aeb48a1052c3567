"""The chat templates that makers of models publish: told apart, with their calls and their reasoning there and back.

``EDGEC_CHAT_TEMPLATES`` names a folder with files of llama.cpp's ``models/templates`` and TRL's ``trl/chat_templates``;
what is not there is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from tokenizers import AddedToken

from edgec.apps.embed.call_spans import PROBE, call_span, probe_call, probe_result
from edgec.bundle.chat_template import render_messages
from edgec.bundle.encoding import decode_tokens
from edgec.bundle.notations import CALL_FORMS, call_form, thinking_form
from edgec.runtime_py.chat import Conversation
from edgec.runtime_py.messages.message_format import ChatOptions, MessageFormat
from edgec.runtime_py.messages.rule import ANSWER, START, THINK
from tests.runtime_py.fake_stepper import FakeStepper
from tests.runtime_py.generation import test_calls
from tests.runtime_py.messages import test_thinking
from tests.runtime_py.messages.talk import said
from tests.runtime_py.tiny_decoder import tiny_tokenizer

FOLDER = os.environ.get("EDGEC_CHAT_TEMPLATES")


@dataclass(frozen=True)
class Published:
    """What a template is.

    Attributes:
        calls: its notation of calls; None where edgec knows none in it.
        thinking: its notation of reasoning.
        phases: where an answer begins, as the template has it and with a budget of 0.
        keeps: it shows the reasoning before a call while the call's result comes.
    """

    calls: str | None = None
    thinking: str | None = None
    phases: tuple[str, str] = (START, START)
    keeps: bool = False


QWEN3: Final = Published("hermes", "think", (START, ANSWER), keeps=True)
HERMES, LLAMA3, NAMED, NONE = Published("hermes"), Published("llama3"), Published("mistral-named"), Published()
OPENED: Final = (THINK, THINK)
PUBLISHED: Final = {
    "Qwen-Qwen2.5-7B-Instruct": HERMES,
    "Qwen-QwQ-32B": Published("hermes", "think", OPENED),
    "Qwen-Qwen3-0.6B": QWEN3,
    "qwen3": QWEN3,
    "qwen3_instruct_2507": HERMES,
    "qwen3_vl": HERMES,
    "qwen3_5_think": Published("qwen-tags", "think", (THINK, ANSWER), keeps=True),
    "qwen3_5_nothink": Published("qwen-tags", "think", (ANSWER, ANSWER), keeps=True),
    "qwen3_6": Published("qwen-tags", "think", (THINK, ANSWER), keeps=True),
    "nemotron_3_nano": Published("qwen-tags", "think", (THINK, ANSWER), keeps=True),
    "nemotron_3_super": Published("qwen-tags", "think", (THINK, ANSWER), keeps=True),
    "nemotron_3_ultra": Published("qwen-tags", "think", (THINK, ANSWER), keeps=True),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": HERMES,
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": HERMES,
    "meta-llama-Llama-3.1-8B-Instruct": LLAMA3,
    "meta-llama-Llama-3.2-3B-Instruct": LLAMA3,
    "meta-llama-Llama-3.3-70B-Instruct": LLAMA3,
    "mistralai-Mistral-Nemo-Instruct-2407": Published("mistral-list"),
    "Mistral-Small-3.2-24B-Instruct-2506": NAMED,
    "unsloth-mistral-Devstral-Small-2507": NAMED,
    "lfm2": Published("lfm2"),
    "lfm2_2_5": Published("lfm2", "think", keeps=True),
    "openai-gpt-oss-120b": Published("harmony", "harmony", keeps=True),
    "diffusion_gemma": Published("gemma4", "gemma4", keeps=True),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": Published(None, "think", OPENED),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": Published(None, "think", OPENED),
    "deepseek-ai-DeepSeek-V3.1": Published(None, "think", (ANSWER, ANSWER)),
    "ByteDance-Seed-OSS": Published(None, "seed"),
    "ibm-granite-granite-3.3-2B-Instruct": Published(None, "think"),
    "NVIDIA-Nemotron-Nano-v2": Published(None, "think", OPENED),
    "glm4moe": Published(None, "think", (START, ANSWER)),
    # Notations that edgec does not read: tools are refused.
    "moonshotai-Kimi-K2": NONE,
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": NONE,
    "meetkai-functionary-medium-v3.1": NONE,
    "fireworks-ai-llama-3-firefunction-v2": NONE,
    # No tools at all.
    "microsoft-Phi-3.5-mini-instruct": NONE,
    "google-gemma-2-2b-it": NONE,
    "gemma3": NONE,
}
WITH_CALLS: Final = [name for name, held in PUBLISHED.items() if held.calls]
WITH_THINKING: Final = [name for name, held in PUBLISHED.items() if held.thinking]
# By their letters, as Gemma's template orders what was called; a call comes in the order of its schema.
FIELDS: Final = {"days": {"type": "integer"}, PROBE.key: {"type": "string"}, "exact": {"type": "boolean"}}
PARAMETERS: Final = {"type": "object", "properties": FIELDS, "required": list(FIELDS)}
TOOL: Final = {"type": "function", "function": {"name": PROBE.name, "description": "?", "parameters": PARAMETERS}}
ARGUMENTS: Final = {"days": 3, PROBE.key: PROBE.value, "exact": True}
USER: Final = {"role": "user", "content": "Weather?"}
THOUGHT: Final = "I should look."

pytestmark = pytest.mark.skipif(FOLDER is None, reason="EDGEC_CHAT_TEMPLATES names no folder")


def template_of(name: str) -> str:
    path = Path(str(FOLDER)) / f"{name}.jinja"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    return path.read_text()


@cache
def tokenizer_of(name: str) -> Any:
    """A tokenizer with the template, in which the markers of its notations are special tokens."""
    template, made, held = template_of(name), tiny_tokenizer(), PUBLISHED[name]
    special = (*test_calls.SPECIAL.get(held.calls or "", ()), *test_thinking.SPECIAL.get(held.thinking or "", ()))
    made.add_tokens([AddedToken(text, special=True) for text in dict.fromkeys(special)], special_tokens=True)
    made.chat_template = template
    return made


def message_format_of(name: str) -> MessageFormat:
    def structures() -> Any:
        raise AssertionError("no grammar is needed")

    return MessageFormat(tokenizer_of(name), structures)


def call_message(**fields: Any) -> dict[str, Any]:
    message = probe_call()
    message["tool_calls"][0]["function"]["arguments"] = ARGUMENTS
    return {**message, **fields}


def text_of(name: str, messages: Sequence[dict[str, Any]]) -> str:
    """A conversation with the tool, up to where the assistant answers."""
    return render_messages(tokenizer_of(name), messages, tools=[TOOL])


def written(name: str) -> str:
    """A call as the template writes it; of gpt-oss, whose template has another place for the name, as models do."""
    form = next(form for form in CALL_FORMS if form.name == PUBLISHED[name].calls)
    head, text = text_of(name, [USER]), text_of(name, [USER, call_message(), probe_result("rain")])
    begin, end = call_span(text, 0, form, head)
    call = text[begin:end]
    return call if form.open in call else f"{form.open}{PROBE.name}{form.writing.between}{call[call.index('{') :]}"


class Scripted:
    """A model that says one text after each prompt."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer, self.begin, self.turn = tokenizer, 0, list[int]()
        self.stepper = FakeStepper(self._next, vocab_size=len(tokenizer), context=16384, chunk=64, rows=64)

    def say(self, place: int, text: str) -> None:
        """Say a text from a place on; what is forced before it is not the model's."""
        self.begin, self.turn = place, said(self.tokenizer, text, eos=False)

    def _next(self, tokens: Sequence[int]) -> int:
        place = len(tokens) - self.begin
        return self.turn[place] if 0 <= place < len(self.turn) else int(self.tokenizer.eos_token_id)


def closing(message_format: MessageFormat, prompt: Sequence[int], chat_options: ChatOptions) -> int:
    """The tokens that close a reasoning which the prompt has opened, at a budget of 0."""
    opened = message_format.thinking is not None and message_format.parser(prompt, chat_options).phase == THINK
    return len(message_format.spelled(message_format.thinking.close)) if opened and message_format.thinking else 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_its_notations_are_recognised(name: str) -> None:
    template, held = template_of(name), PUBLISHED[name]
    calls, thinking = call_form(template), thinking_form(template)
    assert (calls and calls.name, thinking and thinking.name) == (held.calls, held.thinking)


@pytest.mark.parametrize("name", WITH_CALLS)
def test_a_call_goes_there_and_its_result_back(name: str) -> None:
    tokens, call = tokenizer_of(name), written(name)
    model = Scripted(tokens)
    eos = frozenset([tokens.eos_token_id])
    chat = Conversation(model.stepper, tokens, lambda ids: decode_tokens(tokens, ids), eos)
    chat_options = chat.chat_options([TOOL], thinking_budget=0)
    prompt = chat.message_format.prompt([USER], chat_options)
    assert all(part in text_of(name, [USER]) for part in (PROBE.name, PROBE.key, USER["content"]))
    model.say(len(prompt) + closing(chat.message_format, prompt, chat_options), call)
    reply = chat.send(USER["content"], tools=[TOOL], thinking_budget=0)
    assert [(each.name, each.arguments) for each in reply.tool_calls] == [(PROBE.name, ARGUMENTS)]
    assert not reply.text
    chat.add_result(reply.tool_calls[0], "It rains.")
    again = text_of(name, chat.messages)
    shown = again[again.rindex(USER["content"]) :]
    assert shown.index(PROBE.name) < shown.index(PROBE.value) < shown.index("It rains.")


@pytest.mark.parametrize("name", WITH_THINKING)
def test_the_template_says_where_an_answer_begins(name: str) -> None:
    message_format = message_format_of(name)
    for chat_options, phase in zip(
        (ChatOptions(), ChatOptions(thinking_budget=0)), PUBLISHED[name].phases, strict=True
    ):
        assert message_format.parser(message_format.prompt([USER], chat_options), chat_options).phase == phase


@pytest.mark.parametrize("name", [name for name in WITH_CALLS if PUBLISHED[name].thinking])
def test_reasoning_before_a_call_is_shown_where_the_template_does(name: str) -> None:
    shown = text_of(name, [USER, call_message(reasoning_content=THOUGHT), probe_result("rain")])
    assert (THOUGHT in shown) is PUBLISHED[name].keeps
    message = call_message(reasoning_content=THOUGHT, content="Let me see.")
    both = text_of(name, [USER, message, probe_result("rain")])
    assert "Let me see." in both and (THOUGHT in both) is PUBLISHED[name].keeps
