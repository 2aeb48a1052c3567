"""The tokenizer that a GGUF file's metadata describes, as the files of transformers that its texts are read with.

The conversion of transformers (``integrations/gguf``) leaves out what a pre-tokenizer does with digits (``smollm``),
that words of the vocabulary are taken before merges (``llama-bpe``), and special tokens outside the alphabet of bytes.
Here each pre-tokenizer is as llama.cpp has it (its ``src/llama-vocab.cpp``), and one that is not known is refused: text
that is cut in another way gives other tokens, and nothing says so. On the 47 texts with tokens that llama.cpp publishes
for each of nine vocabularies (Llama 2 and 3, Phi-3, Qwen2, GPT-2, Command R, Refact, StarCoder, MPT) every token is
the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.exporter.sources.gguf.split import DIGIT, SPLITS, Split
from edgec.exporter.sources.gguf.vocabulary import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    GgufVocabulary,
    vocabulary_fault,
)

_SPACE = "\u2581"
_TEMPLATE = "tokenizer.chat_template"
_TEMPLATE_NAME = re.compile(r"\w[\w\-]{0,63}")
# Phi-3's special tokens swallow the white space after them, but for these.
_STRIPS, _KEEPS_SPACE = "phi3", ("<unk>", "<s>", "<|endoftext|>")


@dataclass(frozen=True)
class _Parts:
    """The parts of a tokenizer of the ``tokenizers`` package."""

    model: Any
    normalizer: Any
    pre_tokenizer: Any
    decoder: Any
    begins: bool


def write_tokenizer(vocabulary: GgufVocabulary, architecture: str, length: int, folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and the chat templates.

    Args:
        vocabulary: of the file.
        architecture: llama.cpp's name of it.
        length: tokens of the longest text.
        folder: for the files.

    Raises:
        InputError: E811, the pre-tokenizer is not known or the tokenizers package refuses what is there.
    """
    try:
        tokenizer = _tokenizer(vocabulary, architecture)
    except Exception as error:  # tokenizers raises bare Exceptions.
        if hasattr(error, "code"):
            raise
        raise vocabulary_fault(vocabulary.file, " ".join(str(error).split())[:300]) from error
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": length,
        **vocabulary.special,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=2))
    _write_templates(vocabulary, folder)


def _write_templates(vocabulary: GgufVocabulary, folder: Path) -> None:
    metadata = vocabulary.file.metadata
    if isinstance(whole := metadata.get(_TEMPLATE), str):
        (folder / "chat_template.jinja").write_bytes(whole.encode())
    named = {
        key.removeprefix(f"{_TEMPLATE}."): text for key, text in metadata.items() if key.startswith(f"{_TEMPLATE}.")
    }
    for name, text in named.items():
        if isinstance(text, str) and _TEMPLATE_NAME.fullmatch(name):
            (folder / "additional_chat_templates").mkdir(exist_ok=True)
            (folder / "additional_chat_templates" / f"{name}.jinja").write_bytes(text.encode())


def _tokenizer(vocabulary: GgufVocabulary, architecture: str) -> Any:
    from tokenizers import Tokenizer

    parts = (_byte_level if vocabulary.model == "gpt2" else _sentence_pieces)(vocabulary)
    tokenizer = Tokenizer(parts.model)
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = (
        parts.normalizer,
        parts.pre_tokenizer,
        parts.decoder,
    )
    _add_whole_tokens(tokenizer, vocabulary, architecture)
    tokenizer.post_processor = _surrounded(vocabulary, parts.begins)
    return tokenizer


def _byte_level(vocabulary: GgufVocabulary) -> _Parts:
    """BPE over bytes that are written as letters, after the text was cut as the file says."""
    from tokenizers import decoders, models

    name = vocabulary.file.metadata.get("tokenizer.ggml.pre")
    split = SPLITS.get(name) if isinstance(name, str) else None
    if split is None:
        raise vocabulary_fault(
            vocabulary.file,
            f"the pre-tokenizer {str(name)[:40]!r} is not known; read are {', '.join(SPLITS)}"
            if name
            else "the file names no pre-tokenizer (tokenizer.ggml.pre)",
        )
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    merges = [_pair(vocabulary, merge) for merge in vocabulary.merges]
    model = models.BPE(ids, merges, ignore_merges=split.whole_words)
    return _Parts(model, None, _pre_tokenizer(split), decoders.ByteLevel(), split.begins)


def _pair(vocabulary: GgufVocabulary, merge: str) -> tuple[str, str]:
    left, space, right = merge.partition(" ")
    if not left or not space or not right or " " in right:
        raise vocabulary_fault(vocabulary.file, f"the merge {merge[:60]!r} is not a pair of tokens")
    return left, right


def _pre_tokenizer(split: Split) -> Any:
    from tokenizers import Regex, pre_tokenizers

    def cut(pattern: str) -> Any:
        # Of a Split by this pattern, ExecuTorch's tokenizer loses all that lies between digits.
        digits = pattern == DIGIT
        return pre_tokenizers.Digits(True) if digits else pre_tokenizers.Split(Regex(pattern), "isolated")

    cuts = [cut(pattern) for pattern in split.patterns]
    return pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _sentence_pieces(vocabulary: GgufVocabulary) -> _Parts:
    """SentencePiece's BPE: the pair that makes the token of the best score goes first, bytes stand for the rest."""
    from tokenizers import decoders, models, normalizers
    from transformers.tokenization_utils_base import generate_merges

    if len(vocabulary.scores) != len(vocabulary.tokens):
        raise vocabulary_fault(vocabulary.file, "a SentencePiece vocabulary needs a score for each token")
    prefix = vocabulary.flag("add_space_prefix", True)
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    # Tokens that are taken whole from the text are not made by merges.
    pieces = {token: number for token, number in ids.items() if vocabulary.kinds[number] == NORMAL}
    merges = generate_merges(pieces, {token: vocabulary.scores[number] for token, number in pieces.items()})
    unknown = vocabulary.special.get("unk_token")
    model = models.BPE(ids, merges, unk_token=unknown, fuse_unk=unknown is not None, byte_fallback=True)
    spaces = normalizers.Replace(" ", _SPACE)
    normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), spaces]) if prefix else spaces
    back = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    decoder = decoders.Sequence([*back, decoders.Strip(" ", 1, 0)] if prefix else back)
    return _Parts(model, normalizer, None, decoder, True)


def _add_whole_tokens(tokenizer: Any, vocabulary: GgufVocabulary, architecture: str) -> None:
    """Tokens that are found in the text as they are, before it is cut: special ones, and those of the user."""
    from tokenizers import AddedToken

    named, strips = set(vocabulary.special.values()), architecture == _STRIPS
    added = [
        AddedToken(token, normalized=False, special=special, rstrip=strips and special and token not in _KEEPS_SPACE)
        for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)
        if (special := kind in (CONTROL, UNKNOWN) or token in named) or kind == USER_DEFINED
    ]
    tokenizer.add_special_tokens([token for token in added if token.special])
    tokenizer.add_tokens([token for token in added if not token.special])


def _surrounded(vocabulary: GgufVocabulary, begins: bool) -> Any:
    """What puts the first and the last token around a text, where the file asks for it."""
    from tokenizers import processors

    asked = {"bos": vocabulary.flag("add_bos_token", begins), "eos": vocabulary.flag("add_eos_token", False)}
    used = {name: vocabulary.special.get(f"{name}_token") for name, wanted in asked.items() if wanted}
    ids: Mapping[str, int] = {text: vocabulary.tokens.index(text) for text in used.values() if text is not None}
    if not ids:
        return None
    first, last = used.get("bos"), used.get("eos")
    single = [*([first] if first else []), "$A", *([last] if last else [])]
    pair = [*single, *([f"{first}:1"] if first else []), "$B:1", *([f"{last}:1"] if last else [])]
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=list(ids.items()))
