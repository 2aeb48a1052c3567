from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from transformers import PreTrainedTokenizerFast

from edgec.errors import InputError
from edgec.runtime_py.chat import Conversation
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.generation.generate import GenerationRequest
from edgec.runtime_py.sessions.turn import Turn
from tests.runtime_py.fake_stepper import FakeStepper, ring_state, sums
from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
SHORT = GenerationRequest(max_new_tokens=4)


def decode(tokens: list[int]) -> str:
    result: str = TOKENIZER.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return result


def letters(tokens: object) -> int:
    """Printable one-byte tokens, so that re-encoding the answer gives the same tokens."""
    assert isinstance(tokens, list)
    result: int = TOKENIZER.convert_tokens_to_ids(chr(ord("a") + sums(tokens) % 26))
    return result


def conversation(stepper: FakeStepper, system: str | None = None) -> Conversation:
    return Conversation(stepper, TOKENIZER, decode, frozenset([2]), system)


def fake(**options: object) -> FakeStepper:
    return FakeStepper(letters, vocab_size=VOCAB, **({"context": 400, "chunk": 16} | options))  # type: ignore[arg-type]


def test_a_second_turn_prefills_only_what_is_new_and_answers_alike() -> None:
    stepper, fresh = fake(), fake()
    chat = conversation(stepper, system="Be kind.")
    chat.say("Hello there", SHORT)
    before = len(stepper.cache.tokens)
    stepper.calls.clear()
    reply = chat.say("Go on", SHORT)
    assert reply.generation.cached_tokens >= before - 1
    assert stepper.calls[0][0] == reply.generation.cached_tokens
    again = conversation(fresh)
    again.messages = chat.messages[:3]
    assert again.say("Go on", SHORT).text == reply.text
    assert [m["role"] for m in chat.messages] == ["system", "user", "assistant", "user", "assistant"]


def test_another_use_of_the_cache_between_turns_does_no_harm() -> None:
    stepper, fresh = fake(), fake()
    chat = conversation(stepper)
    chat.say("Hello there", SHORT)
    stepper.prefill([9, 9, 9], 0)
    again = conversation(fresh)
    again.messages = list(chat.messages)
    reply = chat.say("Go on", SHORT)
    assert reply.generation.cached_tokens == 0
    assert reply.text == again.say("Go on", SHORT).text


@pytest.mark.parametrize(("slack", "reuses"), [(0, False), (64, True)])
def test_a_ring_is_rewound_within_its_slack_only(slack: int, reuses: bool) -> None:
    stepper = fake(states=[ring_state(slots=8 + slack, window=8)])
    chat = conversation(stepper)
    chat.say("Hello there my friend, how are you today?", SHORT)
    # The user takes the answer back: the cache holds a branch that is no longer part of the conversation.
    chat.messages = chat.messages[:1]
    chat.messages[0] = {"role": "user", "content": "Hello there my friend, how are you today? Well"}
    reply = chat.say("and?", SHORT)
    assert (reply.generation.cached_tokens > 0) is reuses


def test_a_full_context_drops_the_oldest_turns_but_not_the_system_message() -> None:
    stepper = fake(context=96)
    chat = conversation(stepper, system="Be kind.")
    replies = [chat.say(f"Question number {i}?", SHORT) for i in range(6)]
    assert replies[0].dropped_messages == 0 and replies[-1].dropped_messages > 0
    assert all(len(reply.generation.tokens) == 4 for reply in replies)
    shown = TOKENIZER.decode(stepper.cache.tokens)
    assert shown.startswith("<|system|>Be kind.") and "number 5" in shown and "number 0" not in shown


def test_a_message_beyond_the_context_leaves_the_conversation_as_it_was() -> None:
    chat = conversation(fake(context=40))
    with pytest.raises(InputError, match="E150"):
        chat.say("word " * 60, SHORT)
    assert chat.messages == []
    assert chat.say("Hi", SHORT).text


def test_a_tokenizer_without_a_template() -> None:
    plain = PreTrainedTokenizerFast(tokenizer_object=TOKENIZER.backend_tokenizer)
    with pytest.raises(InputError, match="E154"):
        Conversation(fake(), plain, decode, frozenset())


def test_a_template_that_refuses_the_messages() -> None:
    picky = tiny_tokenizer()
    picky.chat_template = "{{ raise_exception('no system message, please') }}"
    with pytest.raises(InputError, match="no system message"):
        Conversation(fake(), picky, decode, frozenset(), "Be kind.").say("Hi", SHORT)


def test_conversations_on_one_cache_take_turns() -> None:
    turn, stepper = Turn(), fake()
    one, other = (Conversation(stepper, TOKENIZER, decode, frozenset([2]), turn=turn) for _ in range(2))
    fresh = [conversation(fake()).send(text, max_new_tokens=6).text for text in ("Hello there", "A longer question")]
    begun = one.stream("Hello there", max_new_tokens=6)
    first = next(begun).text
    with pytest.raises(InputError, match="E179"):
        other.send("A longer question", max_new_tokens=6)
    assert first + "".join(piece.text for piece in begun) == fresh[0]

    async def both() -> list[str]:
        asked = (one.send_async("Go on", max_new_tokens=6), other.send_async("A longer question", max_new_tokens=6))
        return [reply.text for reply in await asyncio.gather(*asked)]

    assert asyncio.run(both())[1] == fresh[1]


def test_an_answer_is_awaited_and_its_pieces_are_the_same() -> None:
    async def run(chat: Conversation) -> tuple[str, str]:
        pieces = chat.stream_async("Hello there", max_new_tokens=6)
        parts = [piece.text async for piece in pieces]
        assert pieces.result is not None and pieces.result.text == "".join(parts)
        return "".join(parts), (await chat.send_async("Go on", max_new_tokens=6)).text

    chat, beside = conversation(fake()), conversation(fake())
    wanted = [beside.send(text, max_new_tokens=6).text for text in ("Hello there", "Go on")]
    assert list(asyncio.run(run(chat))) == wanted and chat.messages == beside.messages


def test_an_answer_that_is_left_stops_and_leaves_the_conversation_as_it_was() -> None:
    async def leave(chat: Conversation) -> None:
        async with chat.stream_async("Hello there", max_new_tokens=50) as pieces:
            async for _ in pieces:
                break

    stepper = fake()
    chat = conversation(stepper)
    asyncio.run(leave(chat))
    assert chat.messages == [] and len(stepper.calls) < 50


def test_an_answer_whose_task_is_cancelled_stops_and_leaves_the_conversation_as_it_was() -> None:
    async def cancel(chat: Conversation) -> None:
        task = asyncio.create_task(chat.send_async("Hello there", max_new_tokens=50))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def slow(tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        begun.set()
        threading.Event().wait(0.01)
        return forward(tokens, start, rows)

    stepper, begun = fake(), threading.Event()
    chat, forward = conversation(stepper), stepper.forward
    stepper.forward = slow  # type: ignore[method-assign]
    asyncio.run(cancel(chat))
    assert chat.messages == [] and len(stepper.calls) < 50


def test_its_repr_is_short() -> None:
    chat = conversation(fake())
    assert repr(chat) == "<edgec Conversation: no messages>"
    chat.messages = [{"role": "user", "content": "x" * 100}]
    assert repr(chat) == f"<edgec Conversation: 1 message, last user: '{'x' * 39}…'>"
    chat.send("Hi", max_new_tokens=4)
    assert "3 messages, last assistant: " in repr(chat)
