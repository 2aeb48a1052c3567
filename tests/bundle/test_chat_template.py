"""Chat templates from outside: they write what transformers writes, and none of them hangs, fills memory or crashes."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from edgec.bundle import chat_template, limited_process
from edgec.bundle.chat_template import RENDERER, render_messages
from edgec.errors import InputError
from tests.hostile_bundles import ENDLESS_TEMPLATES, TEMPLATES
from tests.runtime_py.tiny_decoder import tiny_tokenizer

TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Grüß Gott, <s> {{ 1 }} 😀\n"}]


def _tokenizer(template: str) -> Any:
    return SimpleNamespace(get_chat_template=lambda tools=None: template, special_tokens_map={"bos_token": "<s>"})


def test_the_text_is_the_one_that_transformers_writes() -> None:
    tokenizer = tiny_tokenizer()
    for answer in (True, False):
        wanted = tokenizer.apply_chat_template(TALK, tokenize=False, add_generation_prompt=answer)
        assert render_messages(tokenizer, TALK, answer) == wanted
    assert render_messages(_tokenizer("{{ bos_token }}{{ messages[0].content }}"), TALK) == "<s>Be brief."


@pytest.mark.long
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_that_fails_is_a_typed_error(name: str) -> None:
    with pytest.raises(InputError) as caught:
        render_messages(_tokenizer(TEMPLATES[name]), TALK)
    assert caught.value.code in ("E154", "E159") and caught.value.why
    assert render_messages(_tokenizer("{{ messages|length }}"), TALK) == "2"


@pytest.mark.parametrize(
    "name", [each if each == "huge text" else pytest.param(each, marks=pytest.mark.slow) for each in ENDLESS_TEMPLATES]
)
def test_a_template_without_end_is_stopped(name: str) -> None:
    with pytest.raises(InputError) as caught:
        render_messages(_tokenizer(ENDLESS_TEMPLATES[name]), TALK)
    assert caught.value.code == "E159"
    assert render_messages(_tokenizer("{{ messages|length }}"), TALK) == "2"


@pytest.mark.long
def test_a_loop_is_stopped_by_the_processor_time_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "SECONDS", 1)
    with pytest.raises(InputError) as caught:
        render_messages(_tokenizer(ENDLESS_TEMPLATES["loop"]), TALK)
    assert caught.value.code == "E159" and "more than 1 s of processor time" in caught.value.why


def test_several_threads_take_turns() -> None:
    def say(number: int) -> str:
        return render_messages(_tokenizer("{{ messages[0].content }}"), [{"role": "user", "content": str(number)}])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(say, range(40))) == [str(number) for number in range(40)]


@pytest.mark.long
def test_a_process_that_was_killed_is_started_again() -> None:
    assert render_messages(_tokenizer("a"), TALK) == "a"
    process = RENDERER.process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert render_messages(_tokenizer("b"), TALK) == "b"


def test_an_answer_that_nobody_took_is_not_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(limited_process, "_read_line", interrupted)
        render_messages(_tokenizer("first"), TALK)
    assert render_messages(_tokenizer("second"), TALK) == "second"


def test_a_template_that_gives_no_answer_in_time_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert render_messages(_tokenizer("a"), TALK) == "a"
    with monkeypatch.context() as patch, pytest.raises(InputError) as caught:
        patch.setattr(limited_process, "_WALL_FACTOR", 0.0)
        render_messages(_tokenizer(ENDLESS_TEMPLATES["loop"]), TALK)
    assert caught.value.code == "E159" and "in time" in caught.value.why


def test_a_forked_process_has_a_renderer_of_its_own() -> None:
    assert render_messages(_tokenizer("parent"), TALK) == "parent"
    child = os.fork()
    if child == 0:
        os._exit(0 if RENDERER.process is None and RENDERER.free else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert render_messages(_tokenizer("still"), TALK) == "still"


@pytest.mark.parametrize(
    "messages", [[5], [{"role": "user"}], [{"content": "x"}], [{"role": 1, "content": "x"}], 7, None]
)
def test_what_is_no_conversation_is_refused(messages: Any) -> None:
    with pytest.raises(InputError) as caught:
        render_messages(_tokenizer("x"), messages)
    assert caught.value.code == "E152"
