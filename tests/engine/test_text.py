"""The text core against Python's implementation, over the cases that the apps are judged by."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from ctypes import c_size_t, create_string_buffer
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.apps.embed.notation_facts import notation_facts
from edgec.apps.embed.reply_facts import NO_REPLIES, ReplyFacts
from edgec.bundle.notations import CALL_FORMS, THINKING_FORMS
from edgec.runtime_py.decoding.stopping import StopText
from edgec.runtime_py.decoding.text_stream import TextStream
from edgec.runtime_py.messages.bodies.python_calls import PythonCalls
from tests.apps import reply_cases as python
from tests.engine.text_library import (
    DECODE,
    MALFORMED,
    NativeNotations,
    NativeReply,
    NativeTextStream,
    NativeThinking,
    RawNext,
    text_library,
)
from tests.engine.vision_library import Refused
from tests.runtime_py.decoding.test_text_stream import BYTE_LEVEL, DECODES, SENTENCEPIECE

CASES = python.cases()
LETTERS = st.text(alphabet="abc\u00e9", max_size=30)
STOPS = st.lists(st.text(alphabet="abc\u00e9", min_size=1, max_size=4), max_size=3)


def facts_of(place: int) -> ReplyFacts:
    """The facts of a row of notations, with the tools of the cases."""
    thinking, calls = python.NOTATIONS[place]
    return replace(NO_REPLIES, thinking=thinking, open_tokens=(0,), close_tokens=(1,), calls=calls, tools=python.TOOLS)


@pytest.fixture(scope="module")
def notations() -> list[NativeNotations]:
    return [NativeNotations(facts_of(place)) for place in range(len(python.NOTATIONS))]


def read(case: dict[str, Any], notations: NativeNotations) -> dict[str, Any]:
    """What the text core reads in a message, as `reply_cases.read` states it."""
    reply = NativeReply(notations, case["stops"], case["thinking"])
    pieces: list[list[str]] = []
    calls: list[tuple[str, str]] = []
    failed = ""

    def join() -> None:
        for kind, text, called in reply.drain():
            calls.extend(called)
            if pieces and pieces[-1][0] == kind != "call":
                pieces[-1][1] += text
            else:
                pieces.append([kind, text])

    try:
        for piece in case["pieces"]:
            if reply.stopped_by is None:
                reply.feed(piece)
            join()
        reply.finish()
    except Refused as error:
        assert error.status == MALFORMED
        failed = str(reply.state.raw)
    join()
    state = reply.state
    made = {"pieces": pieces, "reasoning": str(state.reasoning), "text": str(state.shown), "calls": calls}
    return {**made, "failed": failed}


@pytest.mark.long
def test_messages_are_read_as_in_python(notations: list[NativeNotations]) -> None:
    wanted = [python.read(case) for case in CASES]
    said = [read(case, notations[case["notation"]]) for case in CASES]
    wrong = [(case, ours, mine) for case, ours, mine in zip(CASES, said, wanted, strict=True)
             if not python.same(ours, mine)]  # fmt: skip
    assert not wrong, (len(wrong), wrong[:3])
    assert sum(bool(each["calls"]) for each in wanted) > 1000 and sum(bool(each["failed"]) for each in wanted) > 1000


def test_the_end_of_the_last_reasoning_is_known(notations: list[NativeNotations]) -> None:
    place = next(i for i, (thinking, _) in enumerate(python.NOTATIONS) if thinking and thinking.name == "think")
    reply = NativeReply(notations[place])
    reply.feed("<think>\u00e9</think>\nYes.")
    assert str(reply.state.raw).encode()[reply.state.thought_end :] == b"\nYes."


def held(case: dict[str, Any]) -> list[int]:
    """The tokens that the text core lets a model write, as `reply_cases.held` states them."""
    form = next(form for form in THINKING_FORMS if form.name == "think")
    tokens = tuple(case["open"]), tuple(case["close"])
    known = NativeNotations(ReplyFacts(thinking=form, open_tokens=tokens[0], close_tokens=tokens[1]))
    rule = NativeThinking(known, lambda ids: "".join(python.TOKENS[i] for i in ids), case["phase"], case["budget"])
    answer = None if case["answer"] == "free" else python.Answer(False)
    taken: list[int] = []
    for wanted in case["wanted"]:
        taken.append(chosen(rule.next, answer, wanted, case["awaited"]))
        given = rule.gives(taken[-1], answer is None or answer.count_fitting(taken[-1:]) == 1)
        if given and answer is not None:
            answer.take(taken[-1])
        if rule.take(taken[-1], given) and answer is not None:
            answer = python.Answer(True)
        if progress(rule, answer, case) == python.OVER or (answer is not None and taken[-1] == python.EOS):
            break
    return [*taken, progress(rule, answer, case)]


def progress(rule: NativeThinking, answer: python.Answer | None, case: dict[str, Any]) -> int:
    """How far an answer has come: open, whole or over."""
    if answer is None or not rule.next.answer:
        return 0
    return (
        python.OVER if answer.ended(answer.count) else int(case["answer"] == "text" and answer.is_whole(answer.count))
    )


def chosen(next_: RawNext, answer: python.Answer | None, wanted: int, awaited: list[int]) -> int:
    """The token that a model takes which likes the wanted one best, and of the others the first."""
    tokens = range(len(python.TOKENS))
    if next_.only >= 0:
        return int(next_.only)
    if next_.thinking:
        allowed = [token for token in tokens if token not in awaited]
    elif answer is None:
        allowed = list(tokens)
    else:
        allowed = [*(answer.may() if next_.answer else []), *([next_.also] if next_.also >= 0 else [])]
    return wanted if wanted in allowed else min(allowed)


def test_budgets_are_kept_to_the_token_as_in_python() -> None:
    cases = python.budget_cases()
    wrong = [(case, mine, ours) for case in cases if (mine := python.held(case)) != (ours := held(case))]
    assert not wrong, (len(wrong), wrong[:3])


@pytest.mark.long
@pytest.mark.parametrize("name", DECODES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_tokens_become_text_as_in_python(name: str, data: st.DataObject) -> None:
    decode: Callable[[list[int]], str] = DECODES[name]
    vocabulary = len(BYTE_LEVEL) if name == "byte level" else 264
    tokenizer = SENTENCEPIECE if name == "sentencepiece" else BYTE_LEVEL
    written = st.text(alphabet="ab \u4eca\u5929\u6c14\U0001f469\U0001f3fd\u00e9", max_size=40).map(
        lambda text: list(tokenizer(text)["input_ids"])
    )
    ids = st.lists(st.integers(0, vocabulary - 1), max_size=60) | written
    prompt, tokens = data.draw(ids), data.draw(ids)
    mine, ours = TextStream(decode, prompt), NativeTextStream(decode, prompt)
    assert [mine.push(token) for token in tokens] == [ours.push(token) for token in tokens]
    assert mine.flush() == ours.flush()


def test_a_decoder_that_fails_is_a_failure() -> None:
    error = create_string_buffer(200)
    fails = DECODE(lambda *_: 1)
    assert not text_library().edgec_text_stream_open(fails, None, None, c_size_t(0), error, c_size_t(200))
    assert error.value == b"the tokens could not be decoded"


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(LETTERS, st.lists(st.integers(0, 30)), STOPS)
def test_stop_strings_end_a_text_as_in_python(text: str, cuts: list[int], stops: list[str]) -> None:
    mine, ours = StopText(stops), NativeReply(None, stops)
    bounds = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for begin, end in pairwise(bounds):
        said = mine.feed(text[begin:end])
        ours.feed(text[begin:end])
        assert "".join(piece for _, piece, _ in ours.drain()) == said
        assert ours.stopped_by == mine.hit
        if mine.hit is not None:
            return
    ours.finish()
    assert "".join(piece for _, piece, _ in ours.drain()) == mine.flush()


def test_names_hold_the_characters_of_python(notations: list[NativeNotations]) -> None:
    """Assigned characters beyond ASCII, as the second of an argument's name; normal forms are not made."""
    place = next(i for i, (_, calls) in enumerate(python.NOTATIONS) if calls and calls.writing.kind == "python")
    form = python.NOTATIONS[place][1]
    assert form is not None
    accepted = 0
    for point in (*range(0x80, 0xD800, 7), *range(0xE000, 0x20000, 7)):
        name = f"a{chr(point)}"
        # What this version of Unicode assigned, every version of Python knows; 15.1 changed its mind about four.
        if unicodedata.ucd_3_2_0.category(name[1]) == "Cn" or name[1] in "\u200c\u200d\u30fb\uff65":
            continue
        reply = NativeReply(notations[place])
        wanted = name.isidentifier() and unicodedata.is_normalized("NFKC", name[1])
        try:
            reply.feed(f"{form.open}now({name}=1){form.close}")
        except Refused:
            assert not wanted, hex(point)
            continue
        made = [json.loads(each) for _, _, calls in reply.drain() for _, each in calls]
        assert wanted and made == [{name: 1}], hex(point)
        accepted += 1
    assert accepted > 5_000


def test_a_pair_of_surrogates_is_no_text(notations: list[NativeNotations]) -> None:
    place = next(i for i, (_, calls) in enumerate(python.NOTATIONS) if calls and calls.writing.kind == "python")
    assert PythonCalls().read(r"now(x='\ud83d\ude00')")
    with pytest.raises(Refused, match="half a character"):
        NativeReply(notations[place]).feed(r"<|tool_call_start|>now(x='\ud83d\ude00')<|tool_call_end|>")


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ("", "'{'"),
        ("[]", "'{'"),
        ('{"thinking": {"open": "", "close": "x"}}', "empty"),
        ('{"calls": {"open": "x", "writing": {"kind": "xml"}}}', "xml"),
        ('{"calls": {"open": "x"}}', "without how"),
        ('{"calls": {"open": "x", "alone": 1, "writing": {"kind": "list"}}}', "true or false"),
        ('{"calls": {"open": "x", "writing": {"kind": "gemma", "quote": ""}}}', "gemma"),
        ('{"odd": 1}', "unknown"),
        ('{"dropped": [""]}', "empty"),
        ('{"tools": {"a": [1]}}', "'\"'"),
        ("{} {}", "more"),
    ],
)
def test_facts_that_are_none_are_refused(facts: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        NativeNotations(facts)


def test_facts_are_those_of_the_table() -> None:
    stated = json.loads(notation_facts(replace(NO_REPLIES, calls=CALL_FORMS[0], tools=python.TOOLS)))
    assert stated["calls"]["writing"]["between"] == CALL_FORMS[0].writing.between
    assert stated["dropped"][0] == CALL_FORMS[0].frame.lead and stated["tools"]["weather"]


def test_wrong_calls_of_the_interface_are_refused(notations: list[NativeNotations]) -> None:
    with pytest.raises(Refused, match="a stop string is empty"):
        NativeReply(None, ["a", ""])
    with pytest.raises(Refused, match="no notation"):
        NativeReply(None, [], True)
    with pytest.raises(Refused, match="not UTF-8"):
        NativeReply(None).feed(b"\xff")
    with pytest.raises(Refused, match="no notation"):
        NativeThinking(None, lambda ids: "", "think", None)
    unwritten = replace(facts_of(0), open_tokens=(), close_tokens=())
    with pytest.raises(Refused, match="no tokens"):
        NativeThinking(NativeNotations(unwritten), lambda ids: "", "start", 3)


def test_null_is_refused_everywhere() -> None:
    names = {
        *("text_stream_push", "text_stream_flush", "reply_feed", "reply_finish", "thinking_take"),
        *("sampler_choose", "sampler_take", "sampler_scores"),
    }
    opening = ("text_stream_open", "notations_read", "thinking_open", "sampler_open")
    library = text_library()
    for name in names:
        assert getattr(library, f"edgec_{name}")(*[None] * 8) == 1, name
    for name in opening:
        assert getattr(library, f"edgec_{name}")(*[None] * 8) is None, name
    for name in ("text_stream", "notations", "reply", "thinking", "sampler"):
        getattr(library, f"edgec_{name}_close")(None)
    assert library.edgec_reply_piece(None, None) == 0 and library.edgec_thinking_gives(None, None, None) == 0
    library.edgec_reply_state(None, None)
    library.edgec_thinking_next(None, None)
