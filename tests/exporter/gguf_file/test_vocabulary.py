"""A tokenizer written as GGUF metadata gives the same ids again, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from edgec.errors import InputError
from edgec.exporter.gguf_file.description import describe_model
from edgec.exporter.sources.gguf.split import SPLITS
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.resolve import resolve
from tests.runtime_py.tiny_decoder import TEXT, VOCAB
from tests.tiny_llama import tiny_llama

SPECIAL = ["<pad>", "<s>", "</s>", "<|user|>"]


def _byte_level(patterns: tuple[str, ...], whole_words: bool = False) -> Any:
    tokenizer = Tokenizer(models.BPE(ignore_merges=whole_words))
    cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    # Digits that follow each other tell the ways of cutting apart only where there are tokens of several.
    texts = [TEXT, "123 1234 12345 camelCase HTTPServer I'LL it's a\n\n  b // / .\n\n" * 50]
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=SPECIAL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _sentence_pieces() -> Any:
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    texts = ["<unk>", "<s>", "</s>", *bytes_, "\u2581", *"thequickbrownfx", "\u2581t", "he", "\u2581the", "qu"]
    merges = [("\u2581", "t"), ("h", "e"), ("\u2581t", "he"), ("q", "u")]
    vocabulary = {text: number for number, text in enumerate(texts)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    spaces = normalizers.Replace(" ", "\u2581")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), spaces])
    back = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(back)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def _source(tmp_path: Path, tokenizer: Any, **names: str) -> tuple[ModelSource, Any]:
    folder = tmp_path / "tiny"
    tiny_llama().save_pretrained(folder)
    special = {"bos_token": "<s>", "eos_token": "</s>", **names}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.save_pretrained(folder)
    return resolve(str(folder)), fast


def _metadata(source: ModelSource, tokenizer: Any) -> dict[str, Any]:
    from gguf import GGUFWriter

    described = describe_model(source, tokenizer)
    writer = GGUFWriter(None, described.architecture)
    described.describe(writer)
    return {key: value.value for key, value in writer.kv_data[0].items()}


@pytest.mark.parametrize("split", list(dict.fromkeys(SPLITS.values())), ids=lambda split: split.patterns[0][:12])
def test_each_way_of_cutting_is_found_again(split: Any, tmp_path: Path) -> None:
    tokenizer = _byte_level(split.patterns, split.whole_words)
    metadata = _metadata(*_source(tmp_path, tokenizer))
    named = SPLITS[metadata["tokenizer.ggml.pre"]]
    assert metadata["tokenizer.ggml.model"] == "gpt2" and named.patterns == split.patterns
    assert named.whole_words == split.whole_words
    assert not metadata["tokenizer.ggml.add_bos_token"] and len(metadata["tokenizer.ggml.tokens"]) == VOCAB


def test_pieces_of_sentences_keep_their_order_as_scores(tmp_path: Path) -> None:
    source, tokenizer = _source(tmp_path, _sentence_pieces(), unk_token="<unk>")
    metadata = _metadata(source, tokenizer)
    assert metadata["tokenizer.ggml.model"] == "llama" and metadata["tokenizer.ggml.add_bos_token"]
    assert metadata["tokenizer.ggml.add_space_prefix"]
    scores = dict(zip(metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"], strict=True))
    assert scores["\u2581t"] > scores["he"] > scores["\u2581the"] > scores["qu"] > scores["<0x41>"]
    kinds = metadata["tokenizer.ggml.token_type"]
    assert kinds[:4] == [2, 3, 3, 6] and metadata["tokenizer.ggml.unknown_token_id"] == 0
    # Rows of the embedding that no token has.
    assert kinds[-1] == 5 and metadata["tokenizer.ggml.tokens"][-1].startswith("[PAD")


def test_templates_and_ends_are_written(tmp_path: Path) -> None:
    source, tokenizer = _source(tmp_path, _byte_level(SPLITS["gpt-2"].patterns))
    tokenizer.chat_template = {"default": "{{ messages }}", "tool_use": "{{ tools }}"}
    source.generation_config["eos_token_id"] = [3, 2]
    source.generation_config.update(do_sample=True, temperature=0.5, top_k=7)
    metadata = _metadata(source, tokenizer)
    assert metadata["tokenizer.chat_template"] == "{{ messages }}"
    assert metadata["tokenizer.chat_template.tool_use"] == "{{ tools }}"
    # The tokenizer's own end comes first.
    assert (metadata["tokenizer.ggml.eos_token_id"], metadata["tokenizer.ggml.eot_token_id"]) == (2, 3)
    assert (metadata["general.sampling.temp"], metadata["general.sampling.top_k"]) == (0.5, 7)


def _own_way() -> Any:
    return _byte_level((r"[^a]+|a",))


def _word_pieces() -> Any:
    return Tokenizer(models.WordPiece({"[UNK]": 0, "<s>": 1, "</s>": 2}, unk_token="[UNK]"))


@pytest.mark.parametrize(("make", "why"), [(_own_way, "no way of cutting"), (_word_pieces, "not BPE")])
def test_a_tokenizer_that_metadata_cannot_tell_is_refused(make: Callable[[], Any], why: str, tmp_path: Path) -> None:
    source, tokenizer = _source(tmp_path, make())
    with pytest.raises(InputError) as caught:
        describe_model(source, tokenizer)
    assert caught.value.code == "E826" and why in caught.value.why
