"""The tokenizer, and the books as token ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from examples.training.text import REPLY, USER, dialogues, held_out_passages, training_passages

Ids = npt.NDArray[np.int64]
BOS, EOS = "<s>", "</s>"
WORDS = r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\n+|[^\S\n]+"
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ '" + REPLY + ":\\n' }}{% else %}{{ '" + USER + ":\\n' }}{% endif %}"
    "{{ message['content'] | trim }}{{ '\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + REPLY + ":\\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Corpus:
    """Token ids to train on and to measure on."""

    stream: Ids
    line_starts: Ids
    dialogues: tuple[Ids, ...]
    held_out: tuple[Ids, ...]
    held_out_bytes: int


def train_tokenizer(passages: Sequence[str], vocabulary: int) -> Tokenizer:
    """Train a byte-level BPE tokenizer, which can write any text in any language."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [BOS, EOS]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(passages, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, token_id(tokenizer, BOS))]
    )
    return tokenizer


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Return the id of a token that is in the vocabulary."""
    index = tokenizer.token_to_id(token)
    if index is None:
        raise ValueError(f"the tokenizer does not know {token!r}")
    return index


def as_ids(tokenizer: Tokenizer, text: str) -> Ids:
    """Return the token ids of a text, without special tokens."""
    return np.asarray(tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)


def as_document(tokenizer: Tokenizer, text: str) -> Ids:
    """Return the token ids of a text between the beginning and the end token."""
    return np.concatenate([as_ids(tokenizer, BOS), as_ids(tokenizer, text), as_ids(tokenizer, EOS)])


def line_starts(tokenizer: Tokenizer, stream: Ids) -> Ids:
    """Return the positions in the stream at which a line begins."""
    breaks = [index for token, index in tokenizer.get_vocab().items() if set(token) == {"Ċ"}]
    return np.flatnonzero(np.isin(stream, np.asarray(breaks))) + 1


def build_corpus(tokenizer: Tokenizer, texts: Sequence[Path], length: int) -> Corpus:
    """Turn the texts into token ids."""
    passages, held_out = training_passages(texts), held_out_passages(texts)
    stream = np.concatenate([as_document(tokenizer, passage) for passage in passages])
    stream = np.concatenate([stream, stream[:length]])
    starts = line_starts(tokenizer, stream)
    talks = [as_document(tokenizer, talk) for passage in passages for talk in dialogues(passage)]
    return Corpus(
        stream=stream,
        line_starts=np.concatenate([np.zeros(1, dtype=np.int64), starts[starts < len(stream) - length]]),
        dialogues=tuple(talks),
        held_out=tuple(as_ids(tokenizer, passage) for passage in held_out),
        held_out_bytes=sum(len(passage.encode()) for passage in held_out),
    )


def passage_row(corpus: Corpus, bos: int, length: int, rng: np.random.Generator) -> Ids:
    """Return one training row that begins at a random line of the books."""
    start = int(rng.choice(corpus.line_starts))
    return np.concatenate([np.asarray([bos]), corpus.stream[start : start + length]])


def dialogue_row(corpus: Corpus, length: int, rng: np.random.Generator) -> Ids:
    """Return one training row filled with random dialogues."""
    parts: list[Ids] = []
    while sum(map(len, parts)) <= length:
        parts.append(corpus.dialogues[int(rng.integers(len(corpus.dialogues)))])
    return np.concatenate(parts)[: length + 1]


def wrap_tokenizer(tokenizer: Tokenizer, context: int, chat_template: str = CHAT_TEMPLATE) -> Any:
    """Give the tokenizer its special tokens and a chat template, by default that of the plays."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
        chat_template=chat_template,
    )
