"""Calls in each notation: read from what a model says, held to the schemas, streamed, and never dropped."""

from __future__ import annotations

from copy import copy
from typing import Any

import jsonschema
import pytest

from edgec.bundle.notations import CALL_FORMS, CallForm, call_form
from edgec.errors import InputError
from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.messages.refusals import MalformedCall
from tests.example_counts import examples
from tests.runtime_py.messages.talk import NOW, TOOLS, WEATHER, marks_of, speaker, talk, tokenizer
from tests.runtime_py.structured.steppers import RandomStepper

ARGUMENTS = {"city": "Oslo, \u00e9", "days": 3, "unit": "C", "exact": True}
JSON = '{"city": "Oslo, \u00e9", "days": 3, "unit": "C", "exact": true}'
HARMONY = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
QWEN_TAGS = (
    "<tool_call>\n<function=weather>\n<parameter=city>\nOslo, \u00e9\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
    "<parameter=unit>\nC\n</parameter>\n<parameter=exact>\ntrue\n</parameter>\n</function>\n</tool_call>"
)
# What a model writes for one call of `weather`, by notation.
WRITTEN = {
    "harmony": HARMONY + JSON,
    "qwen-tags": QWEN_TAGS,
    "hermes": f'<tool_call>\n{{"name": "weather", "arguments": {JSON}}}\n</tool_call>',
    "mistral-named": f"[TOOL_CALLS]weather[ARGS]{JSON}",
    "mistral-list": f'[TOOL_CALLS] [{{"name": "weather", "arguments": {JSON}, "id": "abcdefghi"}}]',
    "lfm2": '<|tool_call_start|>[weather(city="Oslo, \u00e9", days=3, unit="C", exact=True)]<|tool_call_end|>',
    "gemma4": '<|tool_call>call:weather{city:<|"|>Oslo, \u00e9<|"|>,days:3,unit:<|"|>C<|"|>,exact:true}<tool_call|>',
    "functiongemma": "<start_function_call>call:weather{city:<escape>Oslo, \u00e9<escape>,days:3,"
    "unit:<escape>C<escape>,exact:true}<end_function_call>",
    "llama3": f'{{"name": "weather", "parameters": {JSON}}}',
}
SPECIAL = {
    "harmony": ("<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>"),
    "qwen-tags": (),
    "hermes": (),
    "mistral-named": ("[TOOL_CALLS]", "[ARGS]"),
    "mistral-list": ("[TOOL_CALLS]",),
    "lfm2": ("<|tool_call_start|>", "<|tool_call_end|>"),
    "gemma4": ("<|tool_call>", "<tool_call|>", '<|"|>'),
    "functiongemma": ("<start_function_call>", "<end_function_call>", "<escape>"),
    "llama3": ("<|python_tag|>",),
}
FORMS = {form.name: form for form in CALL_FORMS}
CASES = [
    (name, special) for name in FORMS for special in dict.fromkeys(((), SPECIAL[name])) if special or name != "harmony"
]
AHEAD = {"harmony": "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant", "llama3": ""}


def marked(form: CallForm, special: tuple[str, ...] = ()) -> Any:
    return tokenizer(marks_of(form), tuple(special))


@pytest.mark.parametrize("name", FORMS)
def test_a_template_is_told_by_its_marks(name: str) -> None:
    found = call_form(f"tools {marks_of(FORMS[name])}")
    assert found is not None and found.name == name
    assert call_form(marks_of(FORMS[name])) is None  # No tools in it.
    assert call_form("tools <tool_call> </tool_call> <arg_key>") is None


@pytest.mark.long
@pytest.mark.parametrize(("name", "special"), CASES)
def test_a_call_is_read_and_streamed(name: str, special: tuple[str, ...]) -> None:
    tokens, text = marked(FORMS[name], special), AHEAD.get(name, "Let me see.\n") + WRITTEN[name]
    chat = talk(tokens, speaker(tokens, text))
    pieces: list[Any] = []
    reply = chat.send("Weather?", tools=TOOLS, stream=pieces.append)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("weather", ARGUMENTS)]
    assert reply.text == ("" if name == "llama3" else "Let me see.")
    assert "".join(piece.text for piece in pieces if piece.kind == "text") == reply.text
    assert pieces[-1].calls == reply.tool_calls and pieces[-1].kind == "call"
    assert reply.generation.finish_reason == "eos" if name != "harmony" else True


@pytest.mark.parametrize("name", ["hermes", "qwen-tags", "mistral-named", "gemma4", "functiongemma"])
def test_several_calls_in_their_order(name: str) -> None:
    tokens = marked(FORMS[name], SPECIAL[name])
    second = {
        "hermes": '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
        "qwen-tags": "\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
        "mistral-named": "[TOOL_CALLS]now[ARGS]{}",
        "gemma4": "<|tool_call>call:now{}<tool_call|>",
        "functiongemma": "<start_function_call>call:now{}<end_function_call>",
    }[name]
    reply = talk(tokens, speaker(tokens, WRITTEN[name] + second)).send("?", tools=TOOLS)
    assert [call.name for call in reply.tool_calls] == ["weather", "now"] and not reply.text
    one = talk(tokens, speaker(tokens, WRITTEN[name] + second)).send("?", tools=TOOLS, parallel_tool_calls=False)
    assert [call.name for call in one.tool_calls] == ["weather"]


@pytest.mark.long
def test_lists_of_calls() -> None:
    for name, text in (
        ("lfm2", '<|tool_call_start|>[weather(city="a", days=1), now()]<|tool_call_end|>Done.'),
        ("mistral-list", '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "a", "days": 1}}, '
                         '{"name": "now", "arguments": {}}]'),
    ):  # fmt: skip
        tokens = marked(FORMS[name], SPECIAL[name])
        reply = talk(tokens, speaker(tokens, text)).send("?", tools=TOOLS)
        assert [(call.name, call.arguments) for call in reply.tool_calls] == [
            ("weather", {"city": "a", "days": 1}),
            ("now", {}),
        ]
        one = talk(tokens, speaker(tokens, text)).send("?", tools=TOOLS, parallel_tool_calls=False, max_new_tokens=99)
        assert [call.name for call in one.tool_calls] == ["weather"]


def test_single_quotes_as_lfm2_writes_them() -> None:
    tokens = marked(FORMS["lfm2"], SPECIAL["lfm2"])
    text = "<|tool_call_start|>[weather(city='O\\'Hare \"A\"', days=1)]<|tool_call_end|>"
    (call,) = talk(tokens, speaker(tokens, text)).send("?", tools=TOOLS).tool_calls
    assert call.arguments == {"city": 'O\'Hare "A"', "days": 1}


@pytest.mark.long
@pytest.mark.parametrize("special", [(), SPECIAL["mistral-named"], (*SPECIAL["mistral-named"], "[CALL_ID]")])
def test_an_id_of_its_own_before_the_arguments_is_not_read(special: tuple[str, ...]) -> None:
    tokens = marked(FORMS["mistral-named"], special)
    text = WRITTEN["mistral-named"].replace("[ARGS]", "[CALL_ID]abcDEF123[ARGS]")
    (call,) = talk(tokens, speaker(tokens, text)).send("?", tools=TOOLS).tool_calls
    assert (call.name, call.arguments) == ("weather", ARGUMENTS) and call.id != "abcDEF123"


@pytest.mark.long
def test_truth_as_qwen_tags_may_write_it() -> None:
    tokens = marked(FORMS["qwen-tags"], SPECIAL["qwen-tags"])
    text = WRITTEN["qwen-tags"].replace("true", "True").replace("Oslo, \u00e9", "True")
    (call,) = talk(tokens, speaker(tokens, text)).send("?", tools=TOOLS).tool_calls
    assert call.arguments == ARGUMENTS | {"city": "True"}


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize(("name", "special"), CASES)
def test_random_models_write_calls_that_fulfil_their_schema(name: str, special: tuple[str, ...]) -> None:
    tokens, whole = marked(FORMS[name], special), 0
    # A tool without arguments is always called within the tokens; texts of a random model may not end.
    for seed, tools in enumerate([[NOW], *[TOOLS] * examples(8)]):
        chat = talk(tokens, RandomStepper(len(tokens), seed))
        budget = 5 if chat.message_format.thinking else None
        try:
            reply = chat.answer(
                "?",
                _request(seed),
                chat.chat_options(tools, "required", parallel_tool_calls=False, thinking_budget=budget),
            )
        except MalformedCall as error:
            assert error.text and error.code == "E623"
            assert chat.messages == []
            continue
        whole += 1
        for call in reply.tool_calls:
            tool = {"weather": WEATHER, "now": NOW}[call.name]
            jsonschema.validate(call.arguments, tool["function"]["parameters"])  # type: ignore[index]
        assert reply.tool_calls
    assert whole


def _request(seed: int) -> Any:
    from edgec.runtime_py.generation.generate import GenerationRequest

    return GenerationRequest(160, Sampling(temperature=1.0, seed=seed))


@pytest.mark.long
def test_the_mask_corrects_what_a_model_would_have_written() -> None:
    tokens = marked(FORMS["hermes"])
    wrong = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": "three"}}\n</tool_call>'
    reply = talk(tokens, speaker(tokens, wrong)).send("?", tools=[WEATHER], max_new_tokens=200)
    assert isinstance(reply.tool_calls[0].arguments["days"], int)


@pytest.mark.long
def test_a_call_that_runs_out_of_tokens_holds_its_text() -> None:
    tokens = marked(FORMS["hermes"])
    chat = talk(tokens, speaker(tokens, WRITTEN["hermes"]))
    with pytest.raises(MalformedCall, match="E623") as caught:
        chat.send("?", tools=TOOLS, max_new_tokens=30)
    assert WRITTEN["hermes"].startswith(caught.value.text) and len(caught.value.text) > 20
    assert chat.messages == []
    assert chat.send("?", tools=TOOLS).tool_calls


@pytest.mark.long
def test_choices() -> None:
    tokens = marked(FORMS["hermes"])
    named = talk(tokens, speaker(tokens, "No.")).send("?", tools=TOOLS, tool_choice="now", max_new_tokens=60)
    assert [call.name for call in named.tool_calls] == ["now"]
    silent = talk(tokens, speaker(tokens, "No.")).send("?", tools=TOOLS, tool_choice="none")
    assert silent.text == "No." and not silent.tool_calls
    for wrong in ("sometimes", {"type": "function", "function": {"name": "then"}}, 3):
        with pytest.raises(InputError, match="E626"):
            talk(tokens, speaker(tokens, "")).send("?", tools=TOOLS, tool_choice=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="E626"):
        talk(tokens, speaker(tokens, "")).send("?", tool_choice="required")


@pytest.mark.long
def test_results_go_back() -> None:
    tokens = marked(FORMS["hermes"])
    stepper = speaker(tokens, "Look.\n" + WRITTEN["hermes"], "It rains.")
    chat = talk(tokens, stepper)
    (call,) = chat.send("Weather?", tools=TOOLS).tool_calls
    with pytest.raises(InputError, match="E628"):
        chat.send(tools=TOOLS)
    chat.add_result(call, {"rain": True})
    with pytest.raises(InputError, match="E624"):
        chat.add_result(call, "twice")
    reply = chat.send(tools=TOOLS)
    assert reply.text == "It rains." and not reply.tool_calls and reply.generation.cached_tokens > 0
    assert [message["role"] for message in chat.messages] == ["user", "assistant", "tool", "assistant"]
    assert '{"rain": true}' in tokens.decode(stepper.cache.tokens)
    assert 'weather{"city"' in tokens.decode(stepper.cache.tokens)


@pytest.mark.long
def test_text_that_looks_like_a_call_is_text_without_tools() -> None:
    tokens = marked(FORMS["hermes"])
    text = "I would write <tool_call> here"
    assert talk(tokens, speaker(tokens, text)).send("?").text == text
    llama = marked(FORMS["llama3"])
    reply = talk(llama, speaker(llama, 'Well: {"name": "weather"}')).send("?", tools=TOOLS)
    assert reply.text == 'Well: {"name": "weather"}'


def test_a_template_without_a_place_for_messages_refuses_tools() -> None:
    tokens = copy(tokenizer("nothing"))
    tokens.chat_template = "{{ messages|length }}"
    with pytest.raises(InputError, match="E622"):
        talk(tokens, speaker(tokens, "")).send("?", tools=TOOLS)


def test_tools_and_a_structure_exclude_each_other() -> None:
    from edgec.runtime_py.generation.generate import GenerationRequest
    from edgec.runtime_py.structured.wanted import wanted
    from tests.runtime_py.structured.steppers import structures

    tokens = marked(FORMS["hermes"])
    chat = talk(tokens, speaker(tokens, ""))
    made = wanted(json=True)
    assert made is not None
    with pytest.raises(InputError, match="E627"):
        chat.answer("?", GenerationRequest(structure=structures().compiled(made)), chat.chat_options(TOOLS))
