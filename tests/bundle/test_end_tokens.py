"""The ids that end a text come from all places where published models name them, and are found once, at export."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import AddedToken

from edgec.bundle.end_tokens import end_tokens, turn_ends, with_named_ends, with_tokenizer_ends
from edgec.bundle.generation_config import GenerationConfig
from tests.runtime_py.tiny_decoder import tiny_tokenizer

MARKERS = ("<|im_start|>", "<|im_end|>", "<|end|>", "<|return|>", "<|eor|>")
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Phi's: the end of the text follows the last answer's own end.
TWO_ENDS = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% else %}</s>{% endif %}"
)
# gpt-oss: <|end|> also stands between reasoning and answer, and must not end one.
CHANGING = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% if loop.last and m.role == 'assistant' %}<|return|>{% else %}<|end|>{% endif %}{% endfor %}"
)
# Command R7B: two markers in a row, of which the second ends the turn.
NESTED = "{% for m in messages %}<|im_start|>{{ m.content }}<|eor|><|im_end|>{% endfor %}"
# GLM: nothing follows an answer but the next message.
OPEN = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
REFUSING = "{{ raise_exception('no assistants') }}"


def chat_tokenizer(template: str | None) -> Any:
    """The tiny tokenizer with the markers of several families; its own end is </s>, 2."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([AddedToken(marker, special=True) for marker in MARKERS])
    tokenizer.chat_template = template
    return tokenizer


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (CHATML, ["<|im_end|>"]),
        (TWO_ENDS, ["<|end|>"]),
        (CHANGING, []),
        (NESTED, ["<|im_end|>"]),
        (OPEN, []),
        (REFUSING, []),
        (None, []),
    ],
)
def test_a_template_says_what_ends_an_answer(template: str | None, expected: list[str]) -> None:
    tokenizer = chat_tokenizer(template)
    assert list(turn_ends(tokenizer)) == tokenizer.convert_tokens_to_ids(expected)


@pytest.mark.parametrize(
    ("generation", "config", "expected"),
    [
        ({}, {"eos_token_id": 7}, 7),
        ({"temperature": 0.5}, {"eos_token_id": [7, 8]}, [7, 8]),
        ({"eos_token_id": None}, {"eos_token_id": 7}, 7),
        ({"eos_token_id": 5}, {"eos_token_id": 7}, 5),
        ({}, {"text_config": {"eos_token_id": 9}}, 9),
        ({}, {"eos_token_id": [1, 106], "text_config": {"eos_token_id": 9}}, [1, 106]),
        ({}, {"eos_token_id": -1}, None),
        ({}, {"eos_token_id": "</s>", "text_config": 3}, None),
        ({}, {"eos_token_id": True}, None),
        ({}, {"eos_token_id": 1 << 40}, None),
    ],
)
def test_config_json_names_what_the_generation_config_does_not(
    generation: dict[str, Any], config: dict[str, Any], expected: Any
) -> None:
    made = with_named_ends(generation, config)
    assert made.get("eos_token_id") == expected
    assert {key: made[key] for key in made if key != "eos_token_id"} == {
        key: generation[key] for key in generation if key != "eos_token_id"
    }


def test_conversations_end_where_any_of_the_three_says() -> None:
    tokenizer = chat_tokenizer(CHATML)
    turn = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert with_tokenizer_ends({"eos_token_id": 0}, tokenizer) == {"eos_token_id": [0, 2, turn]}
    assert with_tokenizer_ends({"eos_token_id": [turn, 2]}, tokenizer) == {"eos_token_id": [turn, 2]}
    assert with_tokenizer_ends({}, tokenizer) == {"eos_token_id": [2, turn]}


def test_a_model_without_conversations_ends_as_its_config_says_or_else_its_tokenizer() -> None:
    plain = chat_tokenizer(None)
    assert with_tokenizer_ends({"eos_token_id": 5}, plain) == {"eos_token_id": 5}
    assert with_tokenizer_ends({}, plain) == {"eos_token_id": 2}
    plain.eos_token = None
    assert with_tokenizer_ends({"top_k": 4}, plain) == {"top_k": 4}
    assert with_tokenizer_ends({}, None) == {}


def test_a_bundle_of_an_earlier_version_asks_its_tokenizer_only_without_ids() -> None:
    def never() -> Any:
        raise AssertionError("it was opened")

    assert end_tokens(GenerationConfig(eos_token_id=[3, 4]), never) == (3, 4)
    assert end_tokens(GenerationConfig(eos_token_id=[]), never) == ()
    assert end_tokens(GenerationConfig(), lambda: chat_tokenizer(None)) == (2,)
    assert end_tokens(GenerationConfig(), None) == ()
