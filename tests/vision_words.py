"""The words, marks and sizes of the tiny vision-language models."""

from __future__ import annotations

from typing import Any

_WORDS = ("what", "is", "this", "a", "red", "house", "with", "two", "doors", ":", "User", "Assistant", "and", "here")
MARKS = ("<pad>", "<s>", "</s>", "<unk>", "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
_GRID = tuple(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7))
_NEWLINES = ("\n", "\n\n")
IMAGE_TOKEN = MARKS.index("<image>")
TEMPLATE = (
    "{% for message in messages %}{{ message['role'].capitalize() }} : "
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %} "
    "{% endfor %}{% if add_generation_prompt %}Assistant :{% endif %}"
)
TEXT = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"intermediate_size": 48, "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1},
}
VISION = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40}


def vocabulary() -> dict[str, int]:
    """Marks, words, the marks of tiles and line breaks."""
    return {token: index for index, token in enumerate((*MARKS, *_WORDS, *_GRID, *_NEWLINES))}


VOCABULARY = len(vocabulary())


def tokenizer(**options: Any) -> Any:
    """A tokenizer of words."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel(vocabulary(), unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    words.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in (*MARKS, *_GRID)])
    words.add_tokens([AddedToken(each, normalized=False) for each in _NEWLINES])
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    made = PreTrainedTokenizerFast(tokenizer_object=words, **names, **options)
    made.chat_template = TEMPLATE
    return made
