"""Which tokens a system prompt stands for."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from edgec.bundle.prefix import read_system_prompt
from edgec.errors import InputError
from edgec.runtime_py.chat import chat_tokens
from tests.runtime_py.tiny_decoder import tiny_tokenizer

TEXT = "You are Lily. You like to play outside. "


def written(folder: Path, content: str | bytes) -> Path:
    (folder / "s.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / "s.txt"


def without_template() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer().backend_tokenizer)


@pytest.mark.parametrize("question", ["Who are you?", "\n", "  spaces", "🙂", "42", "e"])
def test_every_conversation_begins_with_its_tokens(question: str, tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    prompt = read_system_prompt(written(tmp_path, TEXT), tokenizer)
    messages = [{"role": "system", "content": TEXT}, {"role": "user", "content": question}]
    assert prompt.form == "chat" and prompt.text == TEXT
    assert tuple(chat_tokens(tokenizer, messages)[: len(prompt.tokens)]) == prompt.tokens
    assert tokenizer.decode(prompt.tokens).startswith(f"<|system|>{TEXT}</s><|user|>")


@pytest.mark.parametrize("question", ["Who are you?", "once upon", "Lily"])
def test_every_text_begins_with_its_tokens_but_for_what_joins_the_question(question: str, tmp_path: Path) -> None:
    tokenizer = without_template()
    prompt = read_system_prompt(written(tmp_path, TEXT), tokenizer)
    kept = len(prompt.tokens) - 1
    assert prompt.form == "text"
    assert tuple(tokenizer(TEXT + question)["input_ids"][:kept]) == prompt.tokens[:kept]
    assert len(prompt.tokens) >= len(tokenizer(TEXT)["input_ids"]) - 2


def test_the_newline_at_the_end_of_the_file_is_not_part_of_it(tmp_path: Path) -> None:
    assert read_system_prompt(written(tmp_path, "Be kind.\r\n"), tiny_tokenizer()).text == "Be kind."


@pytest.mark.parametrize("content", ["", " \n\n", b"\xff\xfe\x00", None])
def test_what_is_no_text_is_refused(content: str | bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "absent" if content is None else written(tmp_path, content)
    with pytest.raises(InputError) as refused:
        read_system_prompt(path, tiny_tokenizer())
    assert refused.value.code == "E191" and refused.value.where == str(path)


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E191"):
        read_system_prompt(written(tmp_path, TEXT), None)


@pytest.mark.parametrize(
    ("template", "code"),
    [
        ("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}", "E191"),
        ("{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}", "E154"),
    ],
)
def test_a_template_without_system_messages_is_refused(template: str, code: str, tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(InputError) as refused:
        read_system_prompt(written(tmp_path, TEXT), tokenizer)
    assert refused.value.code == code
