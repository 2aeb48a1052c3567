"""Tokenizers of every kind that decoders use, trained here on a small text, and texts that are hard for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from edgec.bundle.golden_texts import TEXTS
from tests.apps.android_bundles import EXAMPLE

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace("{1,3}", "")
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"
    r"\s*[\r\n]|\s+(?!\S)|\s"
)
O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
CORPUS = [text for _, text in TEXTS] * 3 + [
    "the quick brown fox jumps over the lazy dog, doesn't it? They'll say we've been there 1,234,567 times.",
    "def main(argv: list[str]) -> int:\n    for i in range(10):\n\t\tprint(f'{i:>4}')\n    return 0\n",
    "Größenordnung, naïve café, Ελληνικά, русский текст, 日本語の文章、中文字符。한국어 문장, हिन्दी पाठ, ภาษาไทย",
    "aaaa aaaaaaaa bbbb abababab   spaces    here  \n\n\n and newlines \r\n\r\n",
]
HARD = [
    *(text for _, text in TEXTS),
    "",
    " ",
    "   ",
    "\n",
    " \n \t\r\n\x0b\x0c\x85\u2028\u3000end ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbababababab",
    "don't DON'T they'LL we'Ve i'M 'ſ 'S he’s",
    "1 12 123 1234 12345 3.14159 ٣٤٥ ½ Ⅷ ²³ 1,000,000.00",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇯🇵 🤷🏽‍♀️ ☃︎ 🥰",
    "e\u0301 é n\u0303o A\u030a\u0301 ﬁne ﬆop Ⅳ ㎏ ｆｕｌｌ",
    "<s>hello</s> <|endoftext|><|eot|>x <mask>  <mask> y [UPPER]lower[upper]",
    "x" * 40 + " " * 17 + "\t" * 5 + "y\n\n\n  z",
    "\x00\x01\x7f\ufffd\ufeff\u200b\u00ad\u2060",
    "İstanbul ǅ ß ẞ Σίσυφος ΑΣ ŉ K Å",
    "᠎각 각 𐐀𐐨 𝐀𝑩 𠀀𪜀 \U0001f1e6 \U000e0041 \U00100000",
    "for(i=0;i<n;++i){a[i]+=b[i]*0x1F;} // ▁done ▁▁ <0x0A> <0xZZ>",
    "مرحبا بالعالم שלום \u200fRTL\u200e नमस्ते ಕನ್ನಡ สวัสดี ချစ်",
]


def _bpe(pre: Any, size: int = 600, **model: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, show_progress=False, initial_alphabet=alphabet, special_tokens=["<|endoftext|>", "<s>", "</s>"]
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _byte_level(pattern: str, **model: Any) -> Tokenizer:
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return _bpe(
        pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), **model
    )


def _template(tokenizer: Tokenizer, single: str) -> Tokenizer:
    names = [name for name in single.split() if not name.startswith("$")]
    known = [(name, tokenizer.token_to_id(name)) for name in names]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=known)
    return tokenizer


def _gpt2() -> Tokenizer:
    return _bpe(pre_tokenizers.ByteLevel(add_prefix_space=False))


def _roberta() -> Tokenizer:
    tokenizer = _bpe(pre_tokenizers.ByteLevel(add_prefix_space=True))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return tokenizer


def _llama3() -> Tokenizer:
    tokenizer = _template(_byte_level(LLAMA3, size=900, ignore_merges=True), "<s> $A")
    tokenizer.add_special_tokens(["<|eot|>", "<|eot_id|>"])
    tokenizer.add_tokens([AddedToken("  ", rstrip=True), "ab", "aba"])
    return tokenizer


def _qwen() -> Tokenizer:
    tokenizer = _byte_level(QWEN)
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def _deepseek() -> Tokenizer:
    steps = [pre_tokenizers.Split(Regex(each), "isolated") for each in (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK)]
    return _bpe(pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))


def _falcon() -> Tokenizer:
    return _bpe(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Punctuation("contiguous"),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
                pre_tokenizers.Digits(individual_digits=False),
                pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
            ]
        )
    )


def _smollm() -> Tokenizer:
    digits = pre_tokenizers.Digits(individual_digits=True)
    return _bpe(pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def _bytes_normalized() -> Tokenizer:
    tokenizer = _bpe(pre_tokenizers.Split(Regex("Ġ+"), "merged_with_next"))
    tokenizer.normalizer = normalizers.ByteLevel()
    tokenizer.add_tokens(["né", "ab "])
    return tokenizer


def _sentencepiece(pre: Any, normalizer: Any, **model: Any) -> Tokenizer:
    """A tokenizer with merges trained on spaces written as U+2581, before byte tokens as SentencePiece orders them."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trained.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, special_tokens=specials, limit_alphabet=120)
    trained.train_from_iterator(CORPUS, trainer)
    read = json.loads(trained.to_str())
    merges = [tuple(pair) for pair in read["model"]["merges"]]
    options = {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>", **model}
    tokenizer = Tokenizer(models.BPE(vocab=read["model"]["vocab"], merges=merges, **options))
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    return _template(tokenizer, "<s> $A")


def _llama2() -> Tokenizer:
    return _sentencepiece(None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]))


def _gemma() -> Tokenizer:
    return _sentencepiece(pre_tokenizers.Split(" ", "merged_with_previous"), normalizers.Replace(" ", "▁"))


def _mistral() -> Tokenizer:
    tokenizer = _sentencepiece(pre_tokenizers.Metaspace(prepend_scheme="first", split=False), None)
    tokenizer.add_special_tokens(["[INST]", "<mask>"])
    tokenizer.add_tokens([AddedToken("Größe", normalized=True)])
    return tokenizer


def _no_fallback() -> Tokenizer:
    pre = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    return _sentencepiece(pre, None, byte_fallback=False, fuse_unk=False)


def _unigram(**model: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), spaces])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=500, show_progress=False, unk_token="<unk>", special_tokens=["<unk>", "</s>"]
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.Metaspace()
    return _template(tokenizer, "$A </s>")


def _unigram_bytes() -> Tokenizer:
    """A Unigram tokenizer with byte tokens, ties of scores, and a token that is the beginning of another one."""
    pieces = [("<unk>", 0.0), *((f"<0x{byte:02X}>", -9.0) for byte in range(256))]
    pieces += [
        (piece, -float(len(piece) % 3) - 1.0) for piece in ("▁", "a", "b", "ab", "ba", "aba", "▁a", "▁ab", "é", "the")
    ]
    pieces += [("t", -2.0), ("h", -2.0), ("e", -2.0), ("th", -3.0), ("he", -3.0), ("👩", -1.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _bert() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=500, show_progress=False, limit_alphabet=100, special_tokens=["[UNK]", "[CLS]", "[SEP]"]
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.WordPiece()
    return _template(tokenizer, "[CLS] $A [SEP]")


def _words() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    steps = [normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()]
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), *steps])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(CORPUS, trainers.WordLevelTrainer(show_progress=False, special_tokens=["<unk>"]))
    tokenizer.add_tokens([AddedToken("[Upper]", normalized=True), AddedToken("Fox", normalized=False)])
    return tokenizer


def _clip() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.CharDelimiterSplit("a"),
            pre_tokenizers.Split(Regex(r"\p{L}+|\S"), "removed", invert=True),
            pre_tokenizers.Split("e", "merged_with_previous"),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=400, show_progress=False, end_of_word_suffix="</w>", limit_alphabet=90, special_tokens=["<unk>"]
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    return tokenizer


def _prefixed() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=500, show_progress=False, continuing_subword_prefix="##", special_tokens=["<unk>"], limit_alphabet=60
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


SAMPLES: Mapping[str, Callable[[], Tokenizer]] = {
    "example": lambda: Tokenizer.from_file(str(EXAMPLE / "tokenizer.json")),
    "gpt2": _gpt2,
    "roberta": _roberta,
    "llama3": _llama3,
    "qwen": _qwen,
    "cl100k": lambda: _byte_level(CL100K),
    "o200k": lambda: _byte_level(O200K),
    "deepseek": _deepseek,
    "falcon": _falcon,
    "smollm": _smollm,
    "bytes_normalized": _bytes_normalized,
    "llama2": _llama2,
    "gemma": _gemma,
    "mistral": _mistral,
    "no_fallback": _no_fallback,
    "unigram": _unigram,
    "unigram_bytes": _unigram_bytes,
    "bert": _bert,
    "words": _words,
    "clip": _clip,
    "prefixed": _prefixed,
}


@cache
def sample(name: str) -> Tokenizer:
    """A tokenizer by its name, trained once."""
    return SAMPLES[name]()
