"""Reasoning told apart from the answer, closed at its budget, and followed by calls or a structured answer."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from edgec.bundle.notations import THINKING_FORMS, ThinkingForm
from edgec.errors import InputError
from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.generation.generate import GenerationRequest
from edgec.runtime_py.messages.message_format import ChatOptions
from edgec.runtime_py.speculation.draft import DraftLimits
from edgec.runtime_py.speculation.prompt_lookup import PromptLookup
from edgec.runtime_py.speculation.speculator import Speculator
from edgec.runtime_py.structured.structures import Structures
from edgec.runtime_py.structured.vocabulary import vocabulary_of
from edgec.runtime_py.structured.wanted import wanted
from tests.runtime_py.messages.talk import OPENED, TOOLS, said, speaker, talk, tokenizer
from tests.runtime_py.structured.steppers import RandomStepper

FORMS = {form.name: form for form in THINKING_FORMS}
SPECIAL = {
    "harmony": ("<|channel|>", "<|message|>", "<|start|>", "<|end|>"),
    "gemma4": ("<|channel>", "<channel|>"),
    "magistral": ("[THINK]", "[/THINK]"),
    "seed": ("<seed:think>", "</seed:think>"),
    "think": ("<think>", "</think>"),
}
CASES = [(name, special) for name in FORMS for special in ((), SPECIAL[name]) if special or name != "harmony"]
WHY = "It is <b>raining</b>,\n\nI think."


def marked(form: ThinkingForm, special: tuple[str, ...] = (), prefill: str = "") -> Any:
    return tokenizer(f"{' '.join(form.marks)} <tool_call> </tool_call>", special, prefill)


def message(form: ThinkingForm, why: str = WHY, answer: str = "Take a coat.") -> str:
    frame = form.frame
    return f"{form.open}{why}{form.close}{frame.lead}{frame.answer}\n\n{answer}"


@pytest.mark.parametrize(("name", "special"), CASES)
def test_reasoning_is_told_apart(name: str, special: tuple[str, ...]) -> None:
    form = FORMS[name]
    tokens = marked(form, special)
    pieces: list[Any] = []
    chat = talk(tokens, speaker(tokens, message(form), "Bye."))
    reply = chat.send("Coat?", stream=pieces.append)
    assert (reply.reasoning, reply.text) == (WHY, "Take a coat.")
    for kind, whole in (("reasoning", WHY), ("text", "Take a coat.")):
        assert "".join(piece.text for piece in pieces if piece.kind == kind) == whole
    assert len(pieces) > 4 and chat.messages[-1]["reasoning_content"] == WHY
    again = chat.send("And?")
    assert (again.reasoning, again.text) == ("", "Bye.")


@pytest.mark.parametrize("budget", [0, 1, 7, 1000])
@pytest.mark.parametrize(("name", "special"), CASES)
def test_a_budget_closes_reasoning_at_exactly_its_tokens(name: str, special: tuple[str, ...], budget: int) -> None:
    form = FORMS[name]
    tokens = marked(form, special)
    opening, close = said(tokens, form.open, eos=False), said(tokens, form.close, eos=False)
    thought = said(tokens, WHY, eos=False)
    reply = talk(tokens, speaker(tokens, message(form))).send("Coat?", thinking_budget=budget, max_new_tokens=400)
    written = list(reply.generation.tokens)
    assert written[: len(opening)] == opening
    count = min(budget, len(thought))
    expected = [*thought[:count], *close]
    assert written[len(opening) : len(opening) + len(expected)] == expected


def test_a_template_that_opens_reasoning_itself() -> None:
    form = FORMS["think"]
    for special in ((), SPECIAL["think"]):
        tokens = marked(form, special, "<think>\n")
        model = speaker(tokens, f"{WHY}\n</think>\n\nYes.", prefill="<think>\n")
        assert talk(tokens, model).send("?").reasoning == WHY
        cut = talk(tokens, speaker(tokens, f"{WHY}</think>Yes.", prefill="<think>\n")).send(
            "?", thinking_budget=3, max_new_tokens=60
        )
        assert list(cut.generation.tokens[:3]) == said(tokens, WHY)[:3]
        assert tuple(cut.generation.tokens[3:]).index(said(tokens, "</think>")[0]) == 0
        none = talk(tokens, speaker(tokens, "Yes.")).send("?", thinking_budget=0, max_new_tokens=60)
        assert none.reasoning == ""


def test_a_budget_of_nothing_switches_it_off_where_the_template_can() -> None:
    tokens = marked(FORMS["think"], SPECIAL["think"], OPENED)
    chat = talk(tokens, speaker(tokens, "Yes.", "<think>Hm</think>Yes.", "Yes."))
    off = chat.message_format.prompt([{"role": "user", "content": "?"}], ChatOptions(thinking_budget=0))
    assert tokens.decode(off).endswith("<think>\n\n</think>\n\n")
    assert chat.send("?", thinking_budget=0).reasoning == ""
    for budget in (None, 9):
        on = chat.message_format.prompt([{"role": "user", "content": "?"}], ChatOptions(thinking_budget=budget))
        assert tokens.decode(on).endswith("<|assistant|>")
    assert chat.send("?").reasoning == "Hm"


def test_wrong_budgets() -> None:
    tokens = tokenizer("nothing")
    chat = talk(tokens, speaker(tokens, "Yes."))
    for wrong in (-1, True, 1.5, "3"):
        with pytest.raises(InputError, match="E625"):
            chat.send("?", thinking_budget=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="E625"):
        chat.send("?", thinking_budget=4)
    assert chat.send("?", thinking_budget=0).text == "Yes."


def test_stop_strings_end_the_answer_alone() -> None:
    form = FORMS["think"]
    tokens = marked(form)
    reply = talk(tokens, speaker(tokens, message(form, "one.two", "three.four"))).send("?", stop=(".",))
    assert (reply.reasoning, reply.text, reply.generation.finish_reason) == ("one.two", "three", "stop")


@pytest.mark.long
@pytest.mark.parametrize(("name", "special"), [case for case in CASES if case[0] in ("think", "harmony")])
def test_a_structured_answer_comes_after_reasoning(name: str, special: tuple[str, ...]) -> None:
    form = FORMS[name]
    tokens = marked(form, special)
    made = Structures(vocabulary_of(tokens, len(tokens), frozenset([tokens.eos_token_id])))
    one = wanted(schema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
    assert one is not None
    request = GenerationRequest(300, structure=made.compiled(one))
    answer = f"{form.frame.lead}{form.frame.answer}" + '{"a": 5}'
    for text, why in ((f"{form.open}{WHY}{form.close}{answer}", WHY), (form.frame.answer + '{"a": 5}', "")):
        reply = talk(tokens, speaker(tokens, text)).answer("?", request)
        assert reply.generation.value == json.loads(reply.text) == {"a": 5} and reply.reasoning == why
    for seed in range(4):
        sampled = GenerationRequest(200, Sampling(temperature=1.0, seed=seed), structure=made.compiled(one))
        made_up = (
            talk(tokens, RandomStepper(len(tokens), seed))
            .answer("?", sampled, ChatOptions(thinking_budget=5))
            .generation
        )
        assert made_up.finish_reason in ("eos", "complete") and isinstance(made_up.value["a"], int)


@pytest.mark.long
def test_calls_come_after_reasoning() -> None:
    form = FORMS["think"]
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    for special in ((), SPECIAL["think"]):
        tokens = marked(form, special)
        said_all = f"<think>Is <tool_call> right?</think>\n\n{call}"
        reply = talk(tokens, speaker(tokens, said_all)).send("?", tools=TOOLS)
        assert reply.reasoning == "Is <tool_call> right?" and [each.name for each in reply.tool_calls] == ["now"]
        must = talk(tokens, speaker(tokens, said_all)).send("?", tools=TOOLS, tool_choice="now", thinking_budget=2)
        assert [each.name for each in must.tool_calls] == ["now"] and len(must.reasoning) < 8


@pytest.mark.long
@pytest.mark.parametrize("asked", [{"thinking_budget": 6}, {"tools": TOOLS, "thinking_budget": 4}, {"tools": TOOLS}])
def test_drafts_change_nothing(asked: dict[str, Any]) -> None:
    form = FORMS["think"]
    tokens = marked(form, SPECIAL["think"])
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    text = f"<think>{'again and ' * 6}</think>again and again and {call * 2}"
    plain = talk(tokens, speaker(tokens, text)).send("again and again", max_new_tokens=200, **asked)
    model = speaker(tokens, text)
    clock = itertools.count()
    speculator = Speculator([PromptLookup()], DraftLimits.of(model.limits), clock=lambda: float(next(clock)))
    ahead = talk(tokens, model, speculator).send("again and again", max_new_tokens=200, **asked)
    assert ahead.generation.speculation is not None and ahead.generation.speculation.accepted
    assert ahead.generation.tokens == plain.generation.tokens
    assert [c.name for c in ahead.tool_calls] == [c.name for c in plain.tool_calls]
