"""Tools and reasoning on a real bundle of random weights: the API of a loaded model, sessions, saved conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgec.errors import InputError
from edgec.runtime_py.model import Model
from tests.runtime_py.serve.running import CALL, NOW, model_of, script, unscripted


@pytest.fixture(scope="module")
def model(tiny_bundle: Path) -> Model:
    return model_of(tiny_bundle)


def now() -> str:
    """Say what time it is."""
    return "12:00"


@pytest.mark.long
def test_a_conversation_with_a_function_is_saved_and_goes_on(model: Model, tmp_path: Path) -> None:
    script(model, f"<think>Hm</think>{CALL}", "It is late.")
    chat = model.chat("")
    with chat.stream("Time?", tools=[now]) as pieces:
        kinds = [piece.kind for piece in pieces]
    assert kinds[-1] == "call" and set(kinds) == {"reasoning", "call"} and pieces.result is not None
    (call,) = pieces.result.tool_calls
    assert call.name == "now" and pieces.result.reasoning == "Hm"
    model.save_session(tmp_path / "talk.session", chat.messages)
    again = model.chat("")
    again.messages = model.load_session(tmp_path / "talk.session")
    assert again.messages == chat.messages and again.waiting == (call.id,)
    again.add_result(call.id, now())
    assert again.send(tools=[now]).text == "It is late."
    unscripted(model)


def test_a_stream_that_is_left_changes_nothing(model: Model) -> None:
    chat = model.chat("")
    with chat.stream("Hi", max_new_tokens=20) as pieces:
        next(pieces)
    assert chat.messages == [] and pieces.result is None
    assert chat.send("Hi", max_new_tokens=3).generation.tokens


def test_generate_with_the_template_tells_reasoning_apart(model: Model) -> None:
    script(model, "<think>One two three.</think>Yes.")
    made = model.generate("Hi", template=True)
    assert (made.reasoning, made.text) == ("One two three.", "Yes.")
    assert "".join(model.stream("Hi", template=True)) == "Yes."
    cut = model.generate("Hi", template=True, thinking_budget=2, max_new_tokens=20)
    assert len(cut.reasoning) < 5
    unscripted(model)
    with pytest.raises(InputError, match="E898"):
        model.generate("Hi", thinking_budget=2)
    with pytest.raises(InputError, match="E625"):
        model.generate("Hi", template=True, thinking_budget=-2)


def test_a_required_call_on_random_weights(model: Model) -> None:
    for speculate in ("off", "ngram"):
        chat = model.chat("", speculate=speculate)
        options: dict[str, Any] = {"parallel_tool_calls": False, "thinking_budget": 0, "max_new_tokens": 200}
        reply = chat.send("Hi", tools=[NOW], tool_choice="required", **options)
        assert [call.name for call in reply.tool_calls] == ["now"]
