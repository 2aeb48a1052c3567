"""Conversations with reasoning and tools over a scripted model, and what an app must make of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from edgec.bundle.golden_texts import ChatVector
from edgec.bundle.tools import tools_of
from tests.apps.android_bundles import CPU, tokenizer_config
from tests.apps.kotlin_bundles import golden_vectors, real_bundle
from tests.runtime_py.messages.talk import NOW, WEATHER

TOOLS = tools_of([WEATHER, NOW])
END_OF_TEXT = 2
CONTEXT = 2048
# It shows the reasoning before calls while their results come, switches it off, and puts results into one message.
TEMPLATE = (
    "{%- if tools %}[tools]{{ tools | tojson }}\n{% endif %}"
    "{%- set ns = namespace(last=0) %}"
    "{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{%- for m in messages %}"
    "{%- if m.role == 'tool' %}{% if loop.previtem.role != 'tool' %}[results]{% endif %}"
    "<result>{{ m.content }}</result>{{ '\n' if loop.last or loop.nextitem.role != 'tool' }}"
    "{%- else %}[{{ m.role }}]"
    "{%- if m.reasoning_content and loop.index0 > ns.last %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{- m.content }}{% for c in m.tool_calls or [] %}{{ '\n' if m.content }}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}\n'
    "{%- endif %}{% endfor %}"
    "{%- if add_generation_prompt %}[assistant]"
    "{%- if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
ARGUMENTS = {"city": "Oslo \u00e9", "days": 3}
CALL = f'<tool_call>\n{{"name": "weather", "arguments": {json.dumps(ARGUMENTS, ensure_ascii=False)}}}\n</tool_call>'
_LOOK = f"<think>Look.</think>Let me see.\n{CALL}"
_THOUGHT = "<think>Hm, rain.</think>\n\nYes."
_COAT, _AND = {"role": "user", "content": "Coat?"}, {"role": "user", "content": "And now?"}
_RESULT = {"role": "tool", "content": '{"rain": "\u00e9"}'}


def rendered(messages: Sequence[Mapping[str, Any]], tools: bool = False, **options: Any) -> str:
    """A conversation up to where the assistant answers, by the template itself."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    definitions = [tool.definition for tool in TOOLS] if tools else None
    made = environment.from_string(TEMPLATE)
    return made.render(messages=messages, tools=definitions, add_generation_prompt=True, **options)


def _called(reasoning: str = "") -> dict[str, Any]:
    function = {"name": "weather", "arguments": ARGUMENTS}
    call = {"id": "abcdefghi", "type": "function", "function": function}
    message: dict[str, Any] = {"role": "assistant", "content": "Let me see.", "tool_calls": [call]}
    return message | ({"reasoning_content": reasoning} if reasoning else {})


def scripts(system: str = "") -> list[dict[str, str]]:
    """What the model says after which prompts; the end of the text follows. ``system`` opens every conversation."""
    asked = [*([{"role": "system", "content": system}] if system else []), _COAT]
    later = [*asked, _called(), _RESULT, {"role": "assistant", "content": "It rains."}, _AND]
    made = [
        {"prompt": rendered(asked), "answer": _THOUGHT},
        {"prompt": rendered(asked, enable_thinking=False), "answer": "Yes, now."},
        {"prompt": rendered(asked, tools=True), "answer": _LOOK},
        {"prompt": rendered([*asked, _called("Look."), _RESULT], tools=True), "answer": "It rains."},
        {"prompt": rendered(later, tools=True), "answer": f"{CALL}\n{CALL}"},
    ]
    # A prompt may begin with another one; the longer one is meant.
    return sorted(made, key=lambda script: -len(script["prompt"]))


def _step(name: str, talk: list[list[str]], budget: int | None = None, tools: bool = False, most: int = 400) -> Any:
    return {"name": name, "talk": talk, "budget": budget, "tools": tools, "maxNewTokens": most}


_ASKED = [["user", "Coat?"]]
_ANSWERED = [*_ASKED, ["reply", "call"], ["result", "call", _RESULT["content"]]]
STEPS = [
    _step("free", _ASKED),
    *(_step(f"budget {count}", _ASKED, count) for count in (3, 9, 50)),
    _step("off", _ASKED, 0),
    _step("call", _ASKED, tools=True),
    _step("result", _ANSWERED, tools=True),
    _step("later", [*_ANSWERED, ["reply", "result"], ["user", "And now?"]], tools=True),
    _step("short budget with tools", _ASKED, 2, tools=True),
    _step("cut", _ASKED, tools=True, most=60),
    _step("no tools, but results", _ANSWERED),
    _step("budget -1", _ASKED, -1),
]


def _parts(reasoning: str, text: str, calls: int = 0, finish: str = "endOfText") -> dict[str, Any]:
    made = [["weather", ARGUMENTS]] * calls
    return {"reasoning": reasoning, "text": text, "calls": made, "finish": finish, "error": ""}


def _fails(error: str) -> dict[str, Any]:
    return {"reasoning": "", "text": "", "calls": [], "finish": "", "error": error}


# The scripted model goes on at its place in the script: a forced marker stands instead of as many of its tokens.
_BEHIND = len("<think>") + len("</think>")
WANTED = {
    "free": _parts("Hm, rain.", "Yes."),
    "budget 3": _parts("Hm,", _THOUGHT[_BEHIND + 3 :]),
    "budget 9": _parts("Hm, rain.", "Yes."),
    "budget 50": _parts("Hm, rain.", "Yes."),
    "off": _parts("", "Yes, now."),
    "call": _parts("Look.", "Let me see.", 1),
    "result": _parts("", "It rains."),
    "later": _parts("", "", 2),
    "short budget with tools": _parts("Lo", "nk>Let me see.", 1),
    "cut": _fails("malformedCall"),
    "no tools, but results": _fails("messageRefused"),
    "budget -1": _fails("optionOutOfRange"),
}
assert _LOOK[_BEHIND + 2 :].startswith("nk>Let me see.\n<tool_call>")


def same(said: Mapping[str, Any], name: str) -> bool:
    """Whether an app made the right thing of a step; its arguments are JSON texts."""
    calls = [[each, json.loads(arguments)] for each, arguments in said["calls"]]
    return {**said, "calls": calls} == WANTED[name]


def talks(system: str = "") -> dict[str, Any]:
    """Scripts and steps, for an app to read from a file."""
    return {"scripts": scripts(system), "steps": STEPS}


def talking_bundle(folder: Path, template: str = TEMPLATE) -> Path:
    """A bundle whose chat template has reasoning and tools, and whose tokens are bytes."""
    good, asked = golden_vectors(), [{"role": "user", "content": "Hi"}]
    text = rendered(asked)
    chat = ChatVector(messages=asked, rendered=text, ids=list(text.encode()))
    assert CPU.limits is not None
    manifest = CPU.model_copy(update={"limits": CPU.limits.model_copy(update={"context": CONTEXT})})
    files = {
        "tokenizer_config": tokenizer_config(template),
        "generation_config": json.dumps({"eos_token_id": END_OF_TEXT}).encode(),
    }
    return real_bundle(folder, manifest, good.model_copy(update={"chat": chat, "chats": ()}), **files)
