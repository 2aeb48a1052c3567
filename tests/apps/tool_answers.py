"""A model with the chat templates of all notations of calls, and what Python's greedy replies with tools are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import edgec
from edgec.apps.embed.constrained_calls import ConstrainedCalls
from edgec.apps.embed.reply_facts import ReplyFacts, reply_facts
from edgec.bundle.notations import CALL_FORMS, CallForm
from edgec.bundle.tools import Tool, tools_of
from edgec.exporter.schemas.constrained_calls import constrained_calls
from edgec.runtime_py.messages.refusals import MalformedCall
from edgec.runtime_py.model import Model
from tests.apps.schema_answers import is_person
from tests.runtime_py.messages.test_calls import SPECIAL

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-stories"
PET = {
    "type": "function",
    "function": {
        "name": "pet",
        "description": "A pet.",
        "parameters": {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["cat", "frog"]},
                "age": {"type": "integer", "minimum": 3, "maximum": 9},
                "tame": {"type": "boolean"},
            },
            "required": ["kind", "age"],
        },
    },
}
NAP = {"type": "function", "function": {"name": "nap", "parameters": {"type": "object", "properties": {}}}}
TOOLS = tools_of([PET, NAP])
MOST = 90
# Reasoning beside calls; harmony and gemma4 have their own.
_THINKS = {"hermes": "<think></think>", "mistral-named": "[THINK][/THINK]", "lfm2": "<think></think>"}
_FORMS = {form.name: form for form in CALL_FORMS}
NAMES = tuple(_FORMS)
_CALL = {"list": '[{"name": "%s", "arguments": %s}]', "opened": '{"name": "%s", "parameters": %s}'}


def step(name: str, choice: str = "auto", **options: Any) -> dict[str, Any]:
    """What is asked of one reply, of a name."""
    asked = {"choice": choice, "parallel": True, "budget": None, "schema": False, "text": "One day a dog", "most": MOST}
    return {"name": name, **asked, **options}


STEPS = (
    step("auto"),
    step("none", "none"),
    step("required", "required"),
    step("one required", "required", parallel=False),
    step("one tool", "nap"),
    step("the other", "pet", parallel=False, text="Lily and her pet"),
    step("cut short", "pet", most=16),
)
THOUGHT_STEPS = (
    step("thought", "required", budget=4),
    step("no thought", "pet", budget=0),
    step("held", schema=True, budget=3, choice="none", most=300),
    step("held without a budget", schema=True, choice="none", most=300),
    step("closed", schema=True, budget=3, choice="none", most=120),
)


def template_of(form: CallForm) -> str:
    """A chat template that shows a notation, and writes a call so that it can be found."""
    text = _CALL.get("opened" if form.writing.opened else form.writing.kind, f"{form.open}%s%s{form.close}")
    text = f"{form.open}{text}" if form.writing.kind == "list" else text
    call = text % ("{{ c.function.name }}", "{{ c.function.arguments | tojson }}")
    return (
        f"{{# {' '.join(form.marks)} {_THINKS.get(form.name, '')} #}}"
        "{% if tools %}{% for t in tools %}{{ t.function.name }} {% endfor %}{% endif %}"
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}" + call + "{% endfor %}\n{% endfor %}"
        "{% if add_generation_prompt %}Once{% endif %}"
    )


def source_with_marks(folder: Path) -> Path:
    """The example's model, whose last tokens are the special ones of all notations."""
    shutil.copytree(EXAMPLE, folder)
    path = folder / "tokenizer.json"
    words = json.loads(path.read_text())
    names = list(dict.fromkeys(mark for marks in SPECIAL.values() for mark in marks))
    by_id = {index: text for text, index in words["model"]["vocab"].items()}
    for name in names:
        index = len(by_id) - 1 - names.index(name)
        words["model"]["vocab"][name] = words["model"]["vocab"].pop(by_id[index]) if index in by_id else index
        words["added_tokens"].append({
            "id": index, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True,
        })  # fmt: skip
    words["added_tokens"].sort(key=lambda token: token["id"])
    words["model"]["merges"] = words["model"]["merges"][: -len(names)]
    path.write_text(json.dumps(words))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = template_of(_FORMS[NAMES[0]])
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@dataclass(frozen=True)
class Spoken:
    """A notation over the model: what an app's code has of it, and Python's replies.

    Attributes:
        facts: for the app.
        held: what its calls are held to.
        steps: what is asked of it.
        wanted: what Python says to each.
    """

    facts: ReplyFacts
    held: ConstrainedCalls
    steps: Sequence[Mapping[str, Any]]
    wanted: Sequence[Mapping[str, Any]]


def spoken(bundle: Path, name: str, work: Path, tools: Sequence[Tool] = TOOLS) -> Spoken:
    """Give a bundle's model the template of a notation, and ask it."""
    words = shutil.copytree(bundle / "tokenizer", work / name)
    config = json.loads((words / "tokenizer_config.json").read_text())
    config["chat_template"] = template_of(_FORMS[name])
    (words / "tokenizer_config.json").write_text(json.dumps(config))
    for other in words.glob("*.jinja"):
        other.write_text(config["chat_template"])
    model = edgec.load(bundle)
    model.tokenizer.chat_template = config["chat_template"]
    held = constrained_calls(model.message_format, model.vocabulary, tools)
    steps = [*STEPS, *(THOUGHT_STEPS if model.message_format.thinking else ())]
    facts = reply_facts(words, tools)
    return Spoken(facts, held, steps, [_said(model, each) for each in steps])


def _said(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A greedy reply of Python."""
    given = {"schema": "person"} if asked["schema"] else {"tools": [PET, NAP], "tool_choice": asked["choice"]}
    options = {"max_new_tokens": asked["most"], "thinking_budget": asked["budget"], **given}
    try:
        reply = model.chat().send(asked["text"], parallel_tool_calls=asked["parallel"], **options)
    except MalformedCall as error:
        return {"reasoning": "", "text": "", "calls": [], "finish": "", "failed": error.text}
    calls = [[call.name, dict(call.arguments)] for call in reply.tool_calls]
    return {
        "reasoning": reply.reasoning, "text": reply.text, "calls": calls,
        "finish": reply.generation.finish_reason, "failed": "",
    }  # fmt: skip


def assert_held(notation: Spoken, said: Sequence[Mapping[str, Any]]) -> None:
    """Assert that an app's replies are Python's, and that these show what the choices mean."""
    pairs = list(zip(notation.steps, said, notation.wanted, strict=True))
    wrong = [(step["name"], app, mine) for step, app, mine in pairs if app != mine]
    assert not wrong, wrong[:2]
    wanted = {step["name"]: mine for step, _, mine in pairs}
    names = {name: [called for called, _ in mine["calls"]] for name, mine in wanted.items()}
    # Where the model does not finish a call within its tokens, the reply is a refusal, in the app too.
    assert set(names["one tool"]) <= {"nap"} and len(names["one required"]) <= 1 and any(names.values())
    called = [call for mine in wanted.values() for call in mine["calls"]]
    assert set(names["the other"]) <= {"pet"} and all(3 <= args.get("age", 3) <= 9 for _, args in called)
    assert not names["none"] and wanted["none"]["text"]
    assert wanted["cut short"]["failed"] or (wanted["cut short"]["finish"], names["cut short"]) == ("length", [])
    if "held" in wanted:
        assert is_person(wanted["held"]["text"]) and wanted["held"]["finish"] in ("complete", "eos")
        assert set(names["no thought"]) <= {"pet"}
