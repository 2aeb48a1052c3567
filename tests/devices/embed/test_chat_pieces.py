"""Chat templates in pieces: recognised where they exist, and refused where an app would render something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jinja2
import pytest

from edgec.devices.embed.chat_pieces import ChatPieces, pieces_of

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3 = (
    "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
GEMMA = (
    "<bos>{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}<end_of_turn>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
NUMBERED = "{% for m in messages %}[{{ loop.index }}] {{ m.content }}\n{% endfor %}"
LAST_ONLY = "{{ messages[-1].content }}"
UPPER = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"


def _render(template: str, messages: Sequence[Mapping[str, str]], answer: bool) -> str:
    environment = jinja2.Environment(keep_trailing_newline=True)

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    compiled = environment.from_string(template, globals={"raise_exception": refuse})
    return compiled.render(messages=messages, add_generation_prompt=answer)


def _pieces(template: str) -> ChatPieces | None:
    return pieces_of(lambda messages, answer: _render(template, messages, answer))


@pytest.mark.parametrize("template", [CHATML, LLAMA3, GEMMA])
def test_common_templates_come_apart_and_back_together(template: str) -> None:
    pieces = _pieces(template)
    assert pieces is not None
    talk = [
        {"role": "user", "content": "  What is {{ 1 }}?\n"},
        {"role": "assistant", "content": "<|im_end|>"},
        {"role": "user", "content": "é"},
    ]
    assert pieces.render(talk) == _render(template, talk, True)
    system = [{"role": "system", "content": "Be brief."}, *talk]
    if template != GEMMA:
        assert pieces.render(system) == _render(template, system, True)


def test_a_role_that_the_template_refuses_is_absent() -> None:
    pieces = _pieces(GEMMA)
    assert pieces is not None and set(pieces.around) == {"user", "assistant"} and pieces.trims


@pytest.mark.parametrize("template", [NUMBERED, LAST_ONLY, UPPER, "", "{{ undefined.field }}"])
def test_templates_that_are_not_made_of_pieces_have_none(template: str) -> None:
    assert _pieces(template) is None
