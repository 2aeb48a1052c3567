from __future__ import annotations

from typing import Any

import pytest

from edgec.exporter.calibration.starts import ANSWER, PROMPTS, batches, chat_batch
from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer

CONFIG = {"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 2}
MOST = 3072


def _with_template(template: str | None) -> Any:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def test_a_chat_model_answers_questions_and_writes_from_its_start() -> None:
    tokenizer = tiny_tokenizer()
    (chat, start), notice = batches(tokenizer, CONFIG, VOCAB, 4096)
    said = tokenizer.decode(chat.starts[0])
    assert said.startswith("<|user|>") and PROMPTS[0] in said and said.endswith("<|assistant|>")
    assert chat.length == ANSWER + max(map(len, chat.starts)) and set(start.starts) == {(1,)} and not notice


def test_a_model_without_a_template_writes_from_its_start_alone() -> None:
    (start,), notice = batches(_with_template(None), CONFIG, VOCAB, 4096)
    assert len(start.starts) == 32 and not notice
    (start,), _ = batches(None, {"vocab_size": 9, "eos_token_id": [4, 5]}, 9, 4096)
    assert set(start.starts) == {(4,)}
    (start,), _ = batches(None, {"vocab_size": 9, "bos_token_id": 9}, 9, 4096)
    assert set(start.starts) == {(0,)}


@pytest.mark.parametrize("template", ["{{ raise_exception('users may not speak') }}", "{% for m in %}"])
def test_a_template_that_fails_leaves_plain_text_and_a_notice(template: str) -> None:
    (start,), notice = batches(_with_template(template), CONFIG, VOCAB, 4096)
    assert set(start.starts) == {(1,)} and "plain text alone, since the chat template failed" in notice
    assert "users may not speak" in notice or "TemplateSyntaxError" in notice


@pytest.mark.parametrize("words", [1, 60, 400])
@pytest.mark.parametrize("context", [4, 64, 300, 131072])
def test_however_long_a_template_is_the_work_is_bounded(words: int, context: int) -> None:
    before = "s " * words
    tokenizer = _with_template(f"{before}{{% for m in messages %}}{{{{ m['content'] }}}}{{% endfor %}}")
    asked, _ = batches(tokenizer, CONFIG, VOCAB, context)
    assert sum(len(batch.starts) * batch.length for batch in asked) <= MOST
    assert sum(batch.length - min(map(len, batch.starts)) for batch in asked) <= 512 + 65
    assert all(0 < len(start) < batch.length <= context for batch in asked for start in batch.starts)


def test_tokens_that_the_model_does_not_have_are_not_asked_for() -> None:
    assert chat_batch(tiny_tokenizer(), 5, 4096) is None
